package org.apache.kafka.connect.mirror;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.SerializationFeature;

import java.io.File;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

import org.apache.kafka.common.utils.Utils;

/**
 * Writes what MirrorMaker 2 makes of a properties file, as JSON beside it.
 *
 * It sits in MirrorMaker 2's package because the methods it calls are not public.
 */
public final class DumpMirrorMakerConfig {
    private static final List<Class<?>> CONNECTORS = List.of(
            MirrorSourceConnector.class, MirrorHeartbeatConnector.class, MirrorCheckpointConnector.class);

    public static void main(String[] paths) throws Exception {
        ObjectMapper json = new ObjectMapper();
        json.enable(SerializationFeature.INDENT_OUTPUT).enable(SerializationFeature.ORDER_MAP_ENTRIES_BY_KEYS);
        for (String path : paths) {
            Map<String, String> props = Utils.propsToStringMap(Utils.loadProps(path));
            json.writeValue(new File(path.replace(".properties", ".json")), describe(new MirrorMakerConfig(props)));
        }
    }

    private static Map<String, Object> describe(MirrorMakerConfig config) {
        Map<String, Object> clusters = new TreeMap<>();
        for (String alias : config.clusters()) {
            clusters.put(alias, Map.of(
                    "clusterProps", new TreeMap<>(config.clusterProps(alias)),
                    "clientConfig", new TreeMap<>(config.clientConfig(alias).originalsStrings())));
        }
        Map<String, Object> flows = new TreeMap<>();
        List<String> pairs = new ArrayList<>();
        for (SourceAndTarget pair : config.clusterPairs()) {
            pairs.add(pair.toString());
            Map<String, Object> flow = new TreeMap<>();
            flow.put("worker", new TreeMap<>(config.workerConfig(pair)));
            for (Class<?> connector : CONNECTORS) {
                flow.put(connector.getSimpleName(), new TreeMap<>(config.connectorBaseConfig(pair, connector)));
            }
            flows.put(pair.toString(), flow);
        }
        return Map.of("clusters", clusters, "flows", flows, "pairs", pairs);
    }
}
