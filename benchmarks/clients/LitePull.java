import java.util.Collection;
import java.util.List;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Reads a topic from its begin with Apache's client, and tells how long that took: seconds of the wall, of the CPU. */
public class LitePull {
    public static void main(String[] given) throws Exception {
        int count = Integer.parseInt(given[3]);
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(given[1]);
        consumer.setNamesrvAddr(given[0]);
        consumer.setAutoCommit(false);
        consumer.setPullBatchSize(Integer.parseInt(given[4]));
        consumer.start();
        Collection<MessageQueue> queues = consumer.fetchMessageQueues(given[2]);
        for (int round = 0; round < 2; round++) {
            long began = System.nanoTime();
            long cpu = ProcessHandle.current().info().totalCpuDuration().get().toNanos();
            if (round == 0) {
                consumer.assign(queues);
            }
            for (MessageQueue queue : queues) {
                consumer.seekToBegin(queue);
            }
            int read = 0;
            while (read < count) {
                List<MessageExt> messages = consumer.poll(1000);
                read += messages.size();
            }
            double wall = (System.nanoTime() - began) / 1e9;
            double used = (ProcessHandle.current().info().totalCpuDuration().get().toNanos() - cpu) / 1e9;
            System.out.println("{\"read\":" + read + ",\"seconds\":" + wall + ",\"cpu_seconds\":" + used + "}");
        }
        consumer.shutdown();
        System.exit(0);
    }
}
