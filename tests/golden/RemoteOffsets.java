import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.TreeSet;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.connect.mirror.MirrorClient;

/**
 * What Apache Kafka's MirrorClient answers about a cluster, one answer a line.
 *
 * Arguments: bootstrap servers, the upstream cluster's alias, a pattern of groups.
 */
public class RemoteOffsets {
    public static void main(String[] args) throws Exception {
        Map<String, Object> props = new HashMap<>();
        props.put("bootstrap.servers", args[0]);
        try (MirrorClient client = new MirrorClient(props)) {
            client.remoteConsumerOffsets(Pattern.compile(args[2]), args[1], Duration.ofSeconds(20))
                .forEach((group, offsets) -> offsets.forEach((partition, offset) ->
                    System.out.println(String.join("\t", "=offset", group, partition.topic(),
                        "" + partition.partition(), "" + offset.offset(), offset.metadata()))));
            System.out.println("=hops\t" + client.replicationHops(args[1]));
            System.out.println("=clusters\t" + String.join("\t", new TreeSet<>(client.upstreamClusters())));
            System.out.println("=heartbeats\t" + String.join("\t", new TreeSet<>(client.heartbeatTopics())));
            System.out.println("=checkpoints\t" + String.join("\t", new TreeSet<>(client.checkpointTopics())));
            System.out.println("=remote\t" + String.join("\t", new TreeSet<>(client.remoteTopics())));
            System.out.println("=from\t" + String.join("\t", new TreeSet<>(client.remoteTopics(args[1]))));
        }
    }
}
