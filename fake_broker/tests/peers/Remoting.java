import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.remoting.RPCHook;

/**
 * Apache's own clients for Java, unchanged: address, kind, group, topic, expression; ends with its input.
 * The property `user` signs every request; its secret is its name.
 */
public class Remoting {
    static final BufferedReader INPUT = new BufferedReader(new InputStreamReader(System.in));
    static final String USER = System.getProperty("user");
    static final RPCHook HOOK = USER == null ? null : new AclClientRPCHook(new SessionCredentials(USER, USER));

    public static void main(String[] given) throws Exception {
        String address = given[0], kind = given[1], group = given[2], topic = given[3], expression = given[4];
        switch (kind) {
            case "produce": produce(address, group, topic); break;
            case "lite": lite(address, group, topic); break;
            default: push(address, group, topic, expression, kind.equals("orderly")); break;
        }
        say("ended");
        System.exit(0);
    }

    static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static void tell(MessageExt message) {
        say("read " + new String(message.getBody(), StandardCharsets.UTF_8) + " " + message.getQueueId()
            + " " + message.getReconsumeTimes() + " " + message.getTags());
    }

    static void produce(String address, String group, String topic) throws Exception {
        TransactionMQProducer producer = new TransactionMQProducer(group, HOOK);
        producer.setNamesrvAddr(address);
        producer.setHeartbeatBrokerInterval(1000);
        producer.setPollNameServerInterval(1000);
        producer.setCompressMsgBodyOverHowmuch(4096);
        producer.setTransactionListener(new TransactionListener() {
            public LocalTransactionState executeLocalTransaction(Message message, Object state) {
                return LocalTransactionState.valueOf((String) state);
            }

            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                say("checked " + new String(message.getBody(), StandardCharsets.UTF_8));
                return LocalTransactionState.COMMIT_MESSAGE;
            }
        });
        producer.start();
        say("ready");
        for (String line = INPUT.readLine(); line != null && !line.equals("end"); line = INPUT.readLine()) {
            String[] words = line.split(" ");
            Message message = new Message(topic, "A", words[1], bytes(words[1]));
            SendResult sent;
            if (words[0].equals("batch")) {
                List<Message> batch = new ArrayList<>();
                for (int each = 1; each < words.length; each++) {
                    batch.add(new Message(topic, "A", words[each], bytes(words[each])));
                }
                sent = producer.send(batch);
            } else if (words[0].equals("large")) {
                sent = producer.send(new Message(topic, "A", bytes(words[1].repeat(Integer.parseInt(words[2])))));
            } else if (words[0].equals("delay")) {
                message.setDelayTimeLevel(Integer.parseInt(words[2]));
                sent = producer.send(message);
            } else if (words[0].equals("half")) {
                sent = producer.sendMessageInTransaction(message, words[2]);
            } else {
                message.putUserProperty("a", words[1]);
                sent = producer.send(message);
            }
            say("sent " + sent.getSendStatus() + " " + sent.getMsgId());
        }
        producer.shutdown();
    }

    static void push(String address, String group, String topic, String expression, boolean orderly) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group, HOOK, new AllocateMessageQueueAveragely());
        consumer.setMaxReconsumeTimes(2);
        consumer.setPersistConsumerOffsetInterval(1000);
        consumer.setNamesrvAddr(address);
        consumer.setHeartbeatBrokerInterval(1000);
        consumer.setPollNameServerInterval(1000);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        if (expression.startsWith("sql:")) {
            consumer.subscribe(topic, MessageSelector.bySql(expression.substring(4)));
        } else {
            consumer.subscribe(topic, expression);
        }
        if (orderly) {
            consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
                messages.forEach(Remoting::tell);
                return ConsumeOrderlyStatus.SUCCESS;
            });
        } else {
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                messages.forEach(Remoting::tell);
                for (MessageExt message : messages) {
                    if (new String(message.getBody(), StandardCharsets.UTF_8).startsWith("fail")) {
                        return ConsumeConcurrentlyStatus.RECONSUME_LATER;
                    }
                }
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
        }
        consumer.start();
        say("ready");
        INPUT.readLine();
        consumer.shutdown();
    }

    static void lite(String address, String group, String topic) throws Exception {
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(group, HOOK);
        consumer.setNamesrvAddr(address);
        consumer.setHeartbeatBrokerInterval(1000);
        consumer.setPollNameServerInterval(1000);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.start();
        say("ready");
        while (System.in.available() == 0) {
            consumer.poll(100).forEach(Remoting::tell);
        }
        consumer.shutdown();
    }
}
