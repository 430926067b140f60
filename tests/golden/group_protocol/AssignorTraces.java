import java.lang.reflect.Constructor;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.connect.runtime.distributed.IncrementalCooperativeAssignor;
import org.apache.kafka.connect.storage.ClusterConfigState;
import org.apache.kafka.connect.util.ConnectorTaskId;

/**
 * What Apache Kafka's cooperative assignor answers to rounds of groups that grow, shrink and fail.
 *
 * Prints assignor_traces.json: java -cp 'kafka jars' AssignorTraces.java > assignor_traces.json
 * An instance is "name" (the connector) or "name-number" (a task). Members are passed in the order
 * of their ids, where a group's leader would pass them in the order of a HashMap.
 */
public class AssignorTraces {
    static final String DISTRIBUTED = "org.apache.kafka.connect.runtime.distributed.";

    final int maxDelay;
    long now = 1_000_000;
    int generation = 0;
    int lastCompleted = -1;
    int leaders = 0;
    IncrementalCooperativeAssignor assignor;
    final TreeMap<String, Set<String>> members = new TreeMap<>();
    final TreeMap<String, Integer> configured = new TreeMap<>();
    final List<String> rounds = new ArrayList<>();

    AssignorTraces(int maxDelay) {
        this.maxDelay = maxDelay;
        newLeader();
    }

    public static void main(String[] args) throws Exception {
        List<String> traces = new ArrayList<>();
        traces.add(scripted());
        int[] delays = {300_000, 300_000, 0, 5_000};
        for (int seed = 0; seed < 12; seed++) traces.add(random(seed, delays[seed % delays.length]));
        System.out.println("[\n" + String.join(",\n", traces) + "\n]");
    }

    static String scripted() throws Exception {
        AssignorTraces group = new AssignorTraces(300_000);
        group.configured.put("a", 4);
        group.configured.put("b", 3);
        group.join("w1"); group.settle();
        group.join("w2"); group.settle();
        group.join("w3"); group.settle();
        group.members.remove("w3"); group.round(true);
        group.now += 100_000;
        group.join("w4"); group.round(true);
        group.now += 200_000; group.settle();
        group.configured.remove("b"); group.settle();
        return group.trace("as documented");
    }

    static String random(int seed, int maxDelay) throws Exception {
        Random random = new Random(seed);
        AssignorTraces group = new AssignorTraces(maxDelay);
        group.join("w1");
        int names = 0;
        int workers = 1;
        for (int step = 0; step < 40; step++) {
            int what = random.nextInt(13);
            if (what < 3) group.join("w" + (++workers));
            else if (what < 5 && group.members.size() > 1) group.members.remove(any(random, group.members.keySet()));
            else if (what < 8) group.configured.put("c" + (++names), random.nextInt(7));
            else if (what < 9 && !group.configured.isEmpty()) group.configured.remove(any(random, group.configured.keySet()));
            else if (what < 10 && !group.configured.isEmpty()) group.configured.put(any(random, group.configured.keySet()), random.nextInt(9));
            else if (what == 10 && random.nextInt(3) == 0) group.newLeader();
            else if (what == 11 && random.nextInt(2) == 0) {
                group.members.get(any(random, group.members.keySet())).addAll(group.members.get(any(random, group.members.keySet())));
            } else if (what == 12 && random.nextInt(2) == 0) group.lastCompleted -= 1;
            group.now += random.nextInt(4) == 0 ? random.nextInt(200_000) : random.nextInt(1_000);
            group.round(random.nextInt(8) != 0);
        }
        return group.trace("seed " + seed);
    }

    static String any(Random random, Collection<String> of) {
        return new ArrayList<>(of).get(random.nextInt(of.size()));
    }

    void join(String member) {
        members.put(member, new LinkedHashSet<>());
    }

    void newLeader() {
        Time time = (Time) Proxy.newProxyInstance(getClass().getClassLoader(), new Class<?>[] {Time.class},
            (proxy, method, arguments) -> method.getName().equals("milliseconds") ? (Object) now : null);
        leaders++;
        assignor = new IncrementalCooperativeAssignor(new LogContext(), time, maxDelay);
    }

    void settle() throws Exception {
        while (round(true)) { }
    }

    /** One round; everybody but, unless completed, one member does as told. Whether a next round is due. */
    boolean round(boolean completed) throws Exception {
        generation++;
        Class<?> assignments = Class.forName(DISTRIBUTED + "WorkerCoordinator$ConnectorsAndTasks");
        Method perform = IncrementalCooperativeAssignor.class.getDeclaredMethod("performTaskAssignment",
            ClusterConfigState.class, int.class, int.class, Map.class);
        perform.setAccessible(true);
        Map<String, Object> allocations = new TreeMap<>();
        for (var member : members.entrySet()) allocations.put(member.getKey(), connectorsAndTasks(member.getValue()));
        List<String> in = new ArrayList<>();
        for (var member : members.entrySet()) in.add(quote(member.getKey()) + ": " + list(member.getValue()));
        Object plan = perform.invoke(assignor, state(), lastCompleted, generation, allocations);
        Map<String, Set<String>> assigned = of(plan, "newlyAssigned");
        Map<String, Set<String>> revoked = of(plan, "newlyRevoked");
        int delay = delay();
        rounds.add("  {\"leader\": " + leaders + ", \"now\": " + now + ", \"last\": " + lastCompleted + ", \"current\": " + generation
            + ",\n   \"configured\": " + counts() + ",\n   \"members\": {" + String.join(", ", in) + "},\n   \"assigned\": "
            + map(assigned) + ",\n   \"revoked\": " + map(revoked) + ",\n   \"owners\": " + map(of(plan, "allAssigned"))
            + ",\n   \"delay\": " + delay + "}");
        String deaf = completed ? null : members.lastKey();
        for (String member : members.keySet()) {
            if (member.equals(deaf)) continue;
            Set<String> next = new LinkedHashSet<>(assigned.get(member));
            members.get(member).removeAll(revoked.get(member));
            next.addAll(members.get(member));
            members.put(member, next);
        }
        lastCompleted = generation;
        return revoked.values().stream().anyMatch(of -> !of.isEmpty());
    }

    int delay() throws Exception {
        var field = IncrementalCooperativeAssignor.class.getDeclaredField("delay");
        field.setAccessible(true);
        return field.getInt(assignor);
    }

    ClusterConfigState state() {
        Map<String, Map<String, String>> configs = new HashMap<>();
        for (String name : configured.keySet()) configs.put(name, Map.of());
        return new ClusterConfigState(1, null, new HashMap<>(configured), configs, Map.of(), Map.of(), Map.of(),
            Map.of(), Map.of(), Set.of(), Set.of());
    }

    static Object connectorsAndTasks(Set<String> instances) throws Exception {
        List<String> connectors = new ArrayList<>();
        List<ConnectorTaskId> tasks = new ArrayList<>();
        for (String instance : instances) {
            int dash = instance.indexOf('-');
            if (dash < 0) connectors.add(instance);
            else tasks.add(new ConnectorTaskId(instance.substring(0, dash), Integer.parseInt(instance.substring(dash + 1))));
        }
        Constructor<?> constructor = Class.forName(DISTRIBUTED + "WorkerCoordinator$ConnectorsAndTasks")
            .getDeclaredConstructor(Collection.class, Collection.class);
        constructor.setAccessible(true);
        return constructor.newInstance(connectors, tasks);
    }

    Map<String, Set<String>> of(Object plan, String which) throws Exception {
        Map<String, Set<String>> all = new TreeMap<>();
        for (String member : members.keySet()) all.put(member, new LinkedHashSet<>());
        for (String kind : List.of("Connectors", "Tasks")) {
            Method method = plan.getClass().getDeclaredMethod(which + kind);
            method.setAccessible(true);
            for (var entry : ((Map<?, ?>) method.invoke(plan)).entrySet()) {
                for (Object instance : (Collection<?>) entry.getValue()) {
                    all.computeIfAbsent((String) entry.getKey(), key -> new LinkedHashSet<>()).add(instance.toString());
                }
            }
        }
        return all;
    }

    String trace(String name) {
        return "{\"name\": " + quote(name) + ", \"max_delay\": " + maxDelay + ", \"rounds\": [\n" + String.join(",\n", rounds) + "\n]}";
    }

    String counts() {
        List<String> all = new ArrayList<>();
        configured.forEach((name, count) -> all.add(quote(name) + ": " + count));
        return "{" + String.join(", ", all) + "}";
    }

    static String map(Map<String, Set<String>> of) {
        List<String> all = new ArrayList<>();
        of.forEach((member, instances) -> all.add(quote(member) + ": " + list(new TreeSet<>(instances))));
        return "{" + String.join(", ", all) + "}";
    }

    static String list(Collection<String> of) {
        return "[" + String.join(", ", of.stream().map(AssignorTraces::quote).toList()) + "]";
    }

    static String quote(String text) {
        return '"' + text + '"';
    }
}
