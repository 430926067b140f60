import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.connect.runtime.distributed.EagerAssignor;
import org.apache.kafka.connect.runtime.distributed.ExtendedWorkerState;
import org.apache.kafka.connect.runtime.distributed.WorkerCoordinator;
import org.apache.kafka.connect.storage.ClusterConfigState;

/**
 * The assignments, in hex, that Apache Kafka's eager assignor makes for groups of all sizes.
 *
 * Prints eager_assignments.json: java -cp 'kafka jars' EagerAssignments.java > eager_assignments.json
 * The leader is the first member, its URL "http://m:8083/" with its id for m, the offset 7.
 */
public class EagerAssignments {
    public static void main(String[] args) throws Exception {
        Field unsafe = sun.misc.Unsafe.class.getDeclaredField("theUnsafe");
        unsafe.setAccessible(true);
        WorkerCoordinator coordinator = (WorkerCoordinator)
            ((sun.misc.Unsafe) unsafe.get(null)).allocateInstance(WorkerCoordinator.class);
        Method perform = EagerAssignor.class.getDeclaredMethod(
            "performTaskAssignment", String.class, long.class, Map.class, WorkerCoordinator.class);
        perform.setAccessible(true);
        Random random = new Random(4);
        List<String> cases = new ArrayList<>();
        for (int number = 0; number < 12; number++) {
            Map<String, Integer> configured = new TreeMap<>();
            for (int name = random.nextInt(6); name > 0; name--) configured.put("c" + random.nextInt(20), random.nextInt(5));
            Map<String, ExtendedWorkerState> members = new HashMap<>();
            for (int id = random.nextInt(5); id >= 0; id--) {
                members.put("m" + id, new ExtendedWorkerState("http://m" + id + ":8083/", 7, null));
            }
            coordinator.configSnapshot(state(configured));
            Map<?, ?> answer = (Map<?, ?>) perform.invoke(new EagerAssignor(new LogContext()), "m0", 7L, members, coordinator);
            List<String> counts = new ArrayList<>();
            configured.forEach((name, count) -> counts.add(quote(name) + ": " + count));
            List<String> assignments = new ArrayList<>();
            new TreeMap<>(answer).forEach((id, bytes) -> assignments.add(quote((String) id) + ": " + quote(hex((ByteBuffer) bytes))));
            cases.add("{\"configured\": {" + String.join(", ", counts) + "},\n \"assignments\": {"
                + String.join(", ", assignments) + "}}");
        }
        System.out.println("[\n" + String.join(",\n", cases) + "\n]");
    }

    static ClusterConfigState state(Map<String, Integer> configured) {
        Map<String, Map<String, String>> configs = new HashMap<>();
        for (String name : configured.keySet()) configs.put(name, Map.of());
        return new ClusterConfigState(7, null, new HashMap<>(configured), configs, Map.of(), Map.of(), Map.of(),
            Map.of(), Map.of(), Set.of(), Set.of());
    }

    static String hex(ByteBuffer buffer) {
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        return HexFormat.of().formatHex(bytes);
    }

    static String quote(String text) {
        return '"' + text + '"';
    }
}
