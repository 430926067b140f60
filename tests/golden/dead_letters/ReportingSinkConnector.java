import java.util.Collection;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.sink.SinkConnector;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.sink.SinkTask;

/** A sink that takes everything but records whose value is "report": those it reports. */
public class ReportingSinkConnector extends SinkConnector {
    private Map<String, String> config;

    @Override
    public void start(Map<String, String> props) {
        config = props;
    }

    @Override
    public Class<? extends Task> taskClass() {
        return ReportingSinkTask.class;
    }

    @Override
    public List<Map<String, String>> taskConfigs(int maxTasks) {
        return List.of(config);
    }

    @Override
    public void stop() {}

    @Override
    public ConfigDef config() {
        return new ConfigDef();
    }

    @Override
    public String version() {
        return "1";
    }

    public static class ReportingSinkTask extends SinkTask {
        @Override
        public void start(Map<String, String> props) {}

        @Override
        public void put(Collection<SinkRecord> records) {
            for (SinkRecord record : records)
                if ("report".equals(record.value()))
                    context.errantRecordReporter().report(record, new ConnectException("refused"));
        }

        @Override
        public void stop() {}

        @Override
        public String version() {
            return "1";
        }
    }
}
