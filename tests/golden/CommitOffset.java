import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;

/**
 * Sets one offset of a group as Apache Kafka's MirrorMaker 2 does when it syncs group offsets.
 *
 * Arguments: bootstrap servers, group, topic, partition, offset, metadata.
 */
public class CommitOffset {
    public static void main(String[] args) throws Exception {
        Map<String, Object> props = new HashMap<>();
        props.put("bootstrap.servers", args[0]);
        TopicPartition partition = new TopicPartition(args[2], Integer.parseInt(args[3]));
        OffsetAndMetadata offset = new OffsetAndMetadata(Long.parseLong(args[4]), args[5]);
        try (Admin admin = Admin.create(props)) {
            admin.alterConsumerGroupOffsets(args[1], Map.of(partition, offset)).all().get();
        }
    }
}
