import java.nio.charset.StandardCharsets;
import java.util.Set;
import java.util.TreeSet;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** A push consumer of a group by Apache's own client: tells what it owns and reads, until its input ends. */
public class PushMember {
    public static void main(String[] given) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(given[1]);
        consumer.setNamesrvAddr(given[0]);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(given[2], "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                System.out.println("read " + new String(message.getBody(), StandardCharsets.UTF_8));
            }
            System.out.flush();
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        Set<Integer> before = null;
        while (System.in.available() == 0) {
            Thread.sleep(20);
            Set<Integer> now = new TreeSet<>();
            for (MessageQueue queue
                    : consumer.getDefaultMQPushConsumerImpl().getRebalanceImpl().getProcessQueueTable().keySet()) {
                if (queue.getTopic().equals(given[2])) {
                    now.add(queue.getQueueId());
                }
            }
            if (!now.equals(before)) {
                System.out.println("owns " + now.toString().replaceAll("[\\[\\],]", ""));
                before = now;
            }
            System.out.flush();
        }
        consumer.shutdown();
        System.exit(0);
    }
}
