import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.connect.runtime.SourceConnectorConfig;
import org.apache.kafka.connect.runtime.WorkerConfig;
import org.apache.kafka.connect.runtime.isolation.Plugins;
import org.apache.kafka.connect.runtime.standalone.StandaloneConfig;
import org.apache.kafka.connect.util.TopicCreation;
import org.apache.kafka.connect.util.TopicCreationGroup;

/**
 * With what settings Kafka Connect would create the topics of a table of cases.
 *
 * java -cp 'kafka jars' TopicGroups.java < cases.json > results.json
 */
public class TopicGroups {
    static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] args) throws Exception {
        Map<String, String> workerProps = Map.of(
                "bootstrap.servers", "localhost:1",
                "offset.storage.file.filename", "/dev/null",
                "key.converter", "org.apache.kafka.connect.storage.StringConverter",
                "value.converter", "org.apache.kafka.connect.storage.StringConverter");
        Plugins plugins = new Plugins(new HashMap<>());
        WorkerConfig worker = new StandaloneConfig(workerProps);
        List<String> lines = new ArrayList<>();
        for (JsonNode test : JSON.readTree(System.in)) {
            Map<String, String> props = new HashMap<>();
            props.put("name", "c");
            props.put("connector.class", "FileStreamSource");
            test.get("config").fields().forEachRemaining(e -> props.put(e.getKey(), e.getValue().asText()));
            ObjectNode result = JSON.createObjectNode();
            try {
                SourceConnectorConfig config = new SourceConnectorConfig(plugins, props, true);
                if (!config.usesTopicCreation()) {
                    result.putNull("topics");
                } else {
                    TopicCreation creation = TopicCreation.newTopicCreation(worker, TopicCreationGroup.configuredGroups(config));
                    ArrayNode topics = result.putArray("topics");
                    for (JsonNode topic : test.get("topics")) {
                        TopicCreationGroup group = creation.findFirstGroup(topic.asText());
                        NewTopic made = group.newTopic(topic.asText());
                        ObjectNode shown = topics.addObject();
                        shown.put("group", group.name());
                        shown.put("partitions", made.numPartitions());
                        shown.put("replication.factor", made.replicationFactor());
                        shown.set("configs", JSON.valueToTree(new TreeMap<>(made.configs())));
                    }
                }
            } catch (Exception e) {
                result.removeAll();
                result.put("error", e.getMessage());
            }
            lines.add(JSON.writeValueAsString(result));
        }
        System.out.println("[\n" + String.join(",\n", lines) + "\n]");
    }
}
