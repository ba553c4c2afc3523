import java.nio.charset.StandardCharsets;
import java.util.Set;
import java.util.TreeSet;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** A member of a group by Apache's own client: tells what it owns and reads, until its input ends. */
public class Member {
    public static void main(String[] given) throws Exception {
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(given[1]);
        consumer.setNamesrvAddr(given[0]);
        consumer.setAutoCommit(false);
        consumer.subscribe(given[2], "*");
        consumer.start();
        Set<Integer> before = null;
        while (System.in.available() == 0) {
            for (MessageExt message : consumer.poll(100)) {
                System.out.println("read " + new String(message.getBody(), StandardCharsets.UTF_8));
            }
            consumer.commit();
            Set<Integer> now = new TreeSet<>();
            for (MessageQueue queue : consumer.assignment()) {
                now.add(queue.getQueueId());
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
