import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Map;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;

/** Apache's own gRPC clients for Java, unchanged: an endpoint; then a command a line, each answered by `sent`. */
public class Grpc {
    static final ClientServiceProvider PROVIDER = ClientServiceProvider.loadService();

    public static void main(String[] given) throws Exception {
        ClientConfiguration configuration = ClientConfiguration.newBuilder()
            .setEndpoints(given[0]).enableSsl(false).setRequestTimeout(Duration.ofSeconds(10)).build();
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        say("ready");
        for (String line = input.readLine(); line != null && !line.equals("end"); line = input.readLine()) {
            String[] words = line.split(" ");
            try {
                switch (words[0]) {
                    case "send": send(configuration, words[1], words[2]); break;
                    case "simple": simple(configuration, words[1], words[2]); break;
                    case "push": push(configuration, words[1], words[2]); break;
                    default: throw new IllegalArgumentException(line);
                }
                say("sent done");
            } catch (Throwable refused) {
                say("sent refused " + root(refused));
            }
        }
        // A push consumer that is closed waits for its long polls, 20 s.
        System.exit(0);
    }

    static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    static Throwable root(Throwable failure) {
        return failure.getCause() == null ? failure : root(failure.getCause());
    }

    static void tell(MessageView message) {
        say("read " + StandardCharsets.UTF_8.decode(message.getBody()));
    }

    static void send(ClientConfiguration configuration, String topic, String body) throws Exception {
        try (Producer producer = PROVIDER.newProducerBuilder().setClientConfiguration(configuration).build()) {
            producer.send(PROVIDER.newMessageBuilder().setTopic(topic).setBody(body.getBytes()).build());
        }
    }

    /** Receives and acknowledges the messages of one answer. */
    static void simple(ClientConfiguration configuration, String group, String topic) throws Exception {
        try (SimpleConsumer consumer = PROVIDER.newSimpleConsumerBuilder().setClientConfiguration(configuration)
            .setConsumerGroup(group).setAwaitDuration(Duration.ofSeconds(10))
            .setSubscriptionExpressions(Map.of(topic, FilterExpression.SUB_ALL)).build()) {
            for (MessageView message : consumer.receive(16, Duration.ofSeconds(30))) {
                consumer.ack(message);
                tell(message);
            }
        }
    }

    static void push(ClientConfiguration configuration, String group, String topic) throws Exception {
        PROVIDER.newPushConsumerBuilder().setClientConfiguration(configuration)
            .setConsumerGroup(group).setSubscriptionExpressions(Map.of(topic, FilterExpression.SUB_ALL))
            .setMessageListener(message -> {
                tell(message);
                return ConsumeResult.SUCCESS;
            }).build();
    }
}
