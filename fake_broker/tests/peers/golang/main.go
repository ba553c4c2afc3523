// Apache's own classic-protocol client for Go, unchanged: address, kind, group, topic, expression; ends with its input.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/admin"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/apache/rocketmq-client-go/v2/rlog"
)

var (
	input  = bufio.NewScanner(os.Stdin)
	output sync.Mutex
)

func main() {
	rlog.SetLogLevel("error")
	servers := primitive.NamesrvAddr{os.Args[1]}
	if os.Args[2] == "load" {
		load(servers, os.Args[3])
		return
	}
	kind, group, topic, expression := os.Args[2], os.Args[3], os.Args[4], os.Args[5]
	switch kind {
	case "produce":
		produce(servers, group, topic)
	case "transact":
		transact(servers, group, topic)
	case "pull":
		pull(servers, group, topic, selector(expression))
	case "admin":
		administer(servers, topic)
	default:
		push(servers, group, topic, kind, selector(expression))
	}
	say("ended")
}

func say(words ...any) {
	output.Lock()
	defer output.Unlock()
	fmt.Println(words...)
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// Calls do for each line of the input, until it ends or says "end".
func commands(do func(words []string)) {
	say("ready")
	for input.Scan() && input.Text() != "end" {
		do(strings.Split(input.Text(), " "))
	}
}

func report(result *primitive.SendResult, err error) {
	if err != nil {
		say("sent", "error", err)
	} else {
		say("sent", result.Status, result.MsgID)
	}
}

func message(topic string, body string) *primitive.Message {
	made := primitive.NewMessage(topic, []byte(body)).WithTag("A").WithKeys([]string{body})
	made.WithProperty("a", body)
	return made
}

func produce(servers primitive.NamesrvAddr, group string, topic string) {
	client, err := rocketmq.NewProducer(
		producer.WithNameServer(servers), producer.WithGroupName(group), producer.WithCompressMsgBodyOverHowmuch(4096))
	must(err)
	must(client.Start())
	commands(func(words []string) {
		switch words[0] {
		case "batch":
			var batch []*primitive.Message
			for _, body := range words[1:] {
				batch = append(batch, message(topic, body))
			}
			report(client.SendSync(context.Background(), batch...))
		case "oneway":
			must(client.SendOneWay(context.Background(), message(topic, words[1])))
			say("sent", "oneway")
		case "large":
			times, _ := strconv.Atoi(words[2])
			large := primitive.NewMessage(topic, []byte(strings.Repeat(words[1], times))).WithTag("A")
			report(client.SendSync(context.Background(), large))
		case "delay":
			level, _ := strconv.Atoi(words[2])
			report(client.SendSync(context.Background(), message(topic, words[1]).WithDelayTimeLevel(level)))
		default:
			report(client.SendSync(context.Background(), message(topic, words[1])))
		}
	})
	must(client.Shutdown())
}

// Decides a transaction as its message's property says, and commits what brokers ask about.
type listener struct{}

func (listener) ExecuteLocalTransaction(half *primitive.Message) primitive.LocalTransactionState {
	state, _ := strconv.Atoi(half.GetProperty("state"))
	return primitive.LocalTransactionState(state)
}

func (listener) CheckLocalTransaction(half *primitive.MessageExt) primitive.LocalTransactionState {
	say("checked", string(half.Body))
	return primitive.CommitMessageState
}

func transact(servers primitive.NamesrvAddr, group string, topic string) {
	client, err := rocketmq.NewTransactionProducer(
		listener{}, producer.WithNameServer(servers), producer.WithGroupName(group))
	must(err)
	must(client.Start())
	commands(func(words []string) {
		half := message(topic, words[1])
		half.WithProperty("state", words[2])
		result, err := client.SendMessageInTransaction(context.Background(), half)
		if err != nil {
			report(nil, err)
		} else {
			report(result.SendResult, nil)
		}
	})
	must(client.Shutdown())
}

func selector(expression string) consumer.MessageSelector {
	if sql, is := strings.CutPrefix(expression, "sql:"); is {
		return consumer.MessageSelector{Type: consumer.SQL92, Expression: sql}
	}
	return consumer.MessageSelector{Type: consumer.TAG, Expression: expression}
}

func tell(read *primitive.MessageExt) {
	say("read", string(read.Body), read.Queue.QueueId, read.ReconsumeTimes, read.GetTags())
}

func push(servers primitive.NamesrvAddr, group string, topic string, kind string, wanted consumer.MessageSelector) {
	model := consumer.Clustering
	if kind == "broadcast" {
		model = consumer.BroadCasting
	}
	client, err := rocketmq.NewPushConsumer(
		consumer.WithNameServer(servers), consumer.WithGroupName(group), consumer.WithConsumerModel(model),
		consumer.WithConsumerOrder(kind == "orderly"), consumer.WithMaxReconsumeTimes(2),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset))
	must(err)
	must(client.Subscribe(topic, wanted,
		func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
			result := consumer.ConsumeSuccess
			for _, each := range messages {
				tell(each)
				if strings.HasPrefix(string(each.Body), "fail") {
					result = consumer.ConsumeRetryLater
				}
			}
			return result, nil
		}))
	must(client.Start())
	commands(func([]string) {})
	must(client.Shutdown())
}

func pull(servers primitive.NamesrvAddr, group string, topic string, wanted consumer.MessageSelector) {
	client, err := rocketmq.NewPullConsumer(
		consumer.WithNameServer(servers), consumer.WithGroupName(group),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset))
	must(err)
	must(client.Subscribe(topic, wanted))
	must(client.Start())
	ended := make(chan struct{})
	go func() {
		commands(func([]string) {})
		close(ended)
	}()
	for isOn := true; isOn; {
		select {
		case <-ended:
			isOn = false
		default:
			if found, err := client.Poll(context.Background(), 100*time.Millisecond); err == nil {
				for _, each := range found.GetMsgList() {
					tell(each)
				}
				client.ACK(context.Background(), found, consumer.ConsumeSuccess)
			}
		}
	}
	must(client.Shutdown())
}

func administer(servers primitive.NamesrvAddr, broker string) {
	client, err := admin.NewAdmin(admin.WithResolver(primitive.NewPassthroughResolver(servers)))
	must(err)
	commands(func(words []string) {
		switch words[0] {
		case "create":
			err := client.CreateTopic(context.Background(),
				admin.WithTopicCreate(words[1]), admin.WithBrokerAddrCreate(broker))
			say("sent", "created", err)
		case "delete":
			err := client.DeleteTopic(context.Background(),
				admin.WithTopicDelete(words[1]), admin.WithBrokerAddrDelete(broker))
			say("sent", "deleted", err)
		case "list":
			found, err := client.FetchAllTopicList(context.Background())
			must(err)
			say("sent", strings.Join(found.TopicList, ","))
		case "queues":
			found, err := client.FetchPublishMessageQueues(context.Background(), words[1])
			say("sent", len(found), err)
		}
	})
	must(client.Close())
}

// Sends as benchmarks order it, and prints what they measure.
func load(servers primitive.NamesrvAddr, orders string) {
	var given struct {
		Group    string
		Topic    string
		WarmUp   float64 `json:"warm_up"`
		Seconds  float64
		InFlight int `json:"in_flight"`
		Bytes    int `json:"body_bytes"`
	}
	must(json.Unmarshal([]byte(orders), &given))
	client, err := rocketmq.NewProducer(producer.WithNameServer(servers), producer.WithGroupName(given.Group))
	must(err)
	must(client.Start())
	body := make([]byte, given.Bytes)
	var count atomic.Int64
	var isOver atomic.Bool
	var senders sync.WaitGroup
	for number := 0; number < given.InFlight; number++ {
		senders.Add(1)
		go func() {
			defer senders.Done()
			for !isOver.Load() {
				_, err := client.SendSync(context.Background(), primitive.NewMessage(given.Topic, body))
				must(err)
				count.Add(1)
			}
		}()
	}
	seconds := func(value float64) time.Duration { return time.Duration(value * float64(time.Second)) }
	time.Sleep(seconds(given.WarmUp))
	began, first, cpu := time.Now(), count.Load(), processor()
	time.Sleep(seconds(given.Seconds))
	used, sent, spent := processor()-cpu, float64(count.Load()-first), time.Since(began).Seconds()
	isOver.Store(true)
	senders.Wait()
	say(fmt.Sprintf(`{"rate": %f, "cpu_us": %f}`, sent/spent, 1e6*used/sent))
	must(client.Shutdown())
}

// Seconds of the processor that this process has used.
func processor() float64 {
	var usage syscall.Rusage
	must(syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return float64(usage.Utime.Nano()+usage.Stime.Nano()) / 1e9
}
