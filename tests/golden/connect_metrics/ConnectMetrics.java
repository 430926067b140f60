import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import javax.management.MBeanAttributeInfo;
import javax.management.MBeanServerConnection;
import javax.management.ObjectName;
import javax.management.remote.JMXConnector;
import javax.management.remote.JMXConnectorFactory;
import javax.management.remote.JMXServiceURL;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.sink.SinkConnector;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.sink.SinkTask;
import org.apache.kafka.connect.source.SourceConnector;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;

/**
 * Prints the MBeans of a running Connect worker, and holds a source and a sink for it to run.
 *
 * Argument: the worker's process id. One line for each attribute: MBean name, attribute, class of
 * its value, value; tab-separated. Needs a JDK; capture.py runs it.
 */
public class ConnectMetrics {
    public static void main(String[] args) throws Exception {
        var machine = com.sun.tools.attach.VirtualMachine.attach(args[0]);
        String url = machine.startLocalManagementAgent();
        try (JMXConnector connector = JMXConnectorFactory.connect(new JMXServiceURL(url))) {
            dump(connector.getMBeanServerConnection());
        } finally {
            machine.detach();
        }
    }

    static void dump(MBeanServerConnection server) throws Exception {
        TreeMap<String, ObjectName> names = new TreeMap<>();
        for (ObjectName name : server.queryNames(new ObjectName("kafka.*:*"), null)) {
            names.put(name.toString(), name);
        }
        for (var entry : names.entrySet()) {
            for (MBeanAttributeInfo info : server.getMBeanInfo(entry.getValue()).getAttributes()) {
                Object value = server.getAttribute(entry.getValue(), info.getName());
                String type = value == null ? "null" : value.getClass().getSimpleName();
                System.out.println(entry.getKey() + "\t" + info.getName() + "\t" + type + "\t" + value);
            }
        }
    }

    public static class Source extends SourceConnector {
        private Map<String, String> config;
        @Override public void start(Map<String, String> config) { this.config = config; }
        @Override public Class<? extends Task> taskClass() { return NumberTask.class; }
        @Override public List<Map<String, String>> taskConfigs(int max) { return List.of(config); }
        @Override public void stop() { }
        @Override public ConfigDef config() { return new ConfigDef(); }
        @Override public String version() { return "7.1"; }
    }

    public static class NumberTask extends SourceTask {
        private int next;
        private String topic;
        @Override public String version() { return "7.2"; }
        @Override public void start(Map<String, String> config) { topic = config.get("topic"); }
        @Override public List<SourceRecord> poll() throws InterruptedException {
            Thread.sleep(100);
            List<SourceRecord> records = new ArrayList<>();
            for (int i = 0; next < 50 && i < 10; i++, next++) {
                records.add(new SourceRecord(Map.of("p", 0), Map.of("n", next), topic,
                    Schema.BYTES_SCHEMA, ("" + next).getBytes()));
            }
            return records.isEmpty() ? null : records;
        }
        @Override public void stop() { }
    }

    public static class Sink extends SinkConnector {
        private Map<String, String> config;
        @Override public void start(Map<String, String> config) { this.config = config; }
        @Override public Class<? extends Task> taskClass() { return NullTask.class; }
        @Override public List<Map<String, String>> taskConfigs(int max) { return List.of(config); }
        @Override public void stop() { }
        @Override public ConfigDef config() { return new ConfigDef(); }
        @Override public String version() { return "8.1"; }
    }

    public static class NullTask extends SinkTask {
        @Override public String version() { return "8.2"; }
        @Override public void start(Map<String, String> config) { }
        @Override public void put(Collection<SinkRecord> records) { }
        @Override public void stop() { }
    }
}
