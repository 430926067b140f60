import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.transforms.Transformation;

/**
 * Reads values as JSON without a schema. MirrorMaker 2 gives transformations bytes, so users have a
 * class like this before the transformations of fields.
 */
public class ReadJson<R extends ConnectRecord<R>> implements Transformation<R> {
    private final JsonConverter json = new JsonConverter();

    @Override
    public void configure(Map<String, ?> configs) {
        json.configure(Map.of("schemas.enable", "false"), false);
    }

    @Override
    public R apply(R record) {
        SchemaAndValue read = json.toConnectData(record.topic(), (byte[]) record.value());
        return record.newRecord(
                record.topic(),
                record.kafkaPartition(),
                record.keySchema(),
                record.key(),
                read.schema(),
                read.value(),
                record.timestamp());
    }

    @Override
    public ConfigDef config() {
        return new ConfigDef();
    }

    @Override
    public void close() {
        json.close();
    }
}
