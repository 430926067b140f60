import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.math.BigDecimal;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.data.*;
import org.apache.kafka.connect.header.ConnectHeaders;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.storage.Converter;
import org.apache.kafka.connect.storage.HeaderConverter;
import org.apache.kafka.connect.transforms.Transformation;
import org.apache.kafka.connect.transforms.predicates.Predicate;

/**
 * What Kafka Connect's transformations, predicates, converters and Values do with a table of cases.
 *
 * TZ=UTC java -cp 'kafka jars' ConnectData.java < cases.json > results.json
 *
 * Values in JSON: null, booleans, strings, whole numbers (Long), others (Double), arrays, and objects
 * {"i8"|"i16"|"i32"|"f32"|"dec"|"date"|"bytes"|"map"|"struct": ...}. A schema is a type's name, "?"
 * behind it for optional, or an object.
 */
public class ConnectData {
    static final ObjectMapper JSON = new ObjectMapper();
    static final HexFormat HEX = HexFormat.of();

    public static void main(String[] args) throws Exception {
        List<String> lines = new ArrayList<>();
        for (JsonNode test : JSON.readTree(System.in)) {
            ObjectNode result = JSON.createObjectNode();
            try {
                run(test, result);
            } catch (Exception e) {
                result.removeAll();
                Throwable shown = e;
                result.put("error", shown.getClass().getSimpleName());
                result.put("message", String.valueOf(shown.getMessage()));
            }
            lines.add(JSON.writeValueAsString(result));
        }
        System.out.println("[\n" + String.join(",\n", lines) + "\n]");
    }

    static void run(JsonNode test, ObjectNode result) throws Exception {
        switch (test.get("kind").asText()) {
            case "transform" -> transform(test, result);
            case "predicate" -> {
                Predicate<SourceRecord> predicate = make(test);
                predicate.configure(config(test));
                result.put("result", predicate.test(record(test.get("record"))));
            }
            case "to_bytes" -> toBytes(test, result);
            case "from_bytes" -> fromBytes(test, result);
            case "parse" -> put(result, Values.parseString(test.get("text").asText()));
            case "print" -> {
                Schema schema = schema(test.get("schema"));
                result.put("text", Values.convertToString(schema, value(schema, test.get("value"))));
            }
            default -> throw new IllegalStateException();
        }
    }

    @SuppressWarnings("unchecked")
    static <T> T make(JsonNode test) throws Exception {
        return (T) Class.forName("org.apache.kafka.connect." + test.get("class").asText()).getDeclaredConstructor().newInstance();
    }

    static Map<String, String> config(JsonNode test) {
        Map<String, String> config = new HashMap<>();
        if (test.has("config"))
            test.get("config").fields().forEachRemaining(e -> config.put(e.getKey(), e.getValue().textValue()));
        return config;
    }

    static void transform(JsonNode test, ObjectNode result) throws Exception {
        Transformation<SourceRecord> transformation = make(test);
        transformation.configure(config(test));
        SourceRecord record = transformation.apply(record(test.get("record")));
        if (record == null) {
            result.putNull("record");
            return;
        }
        ObjectNode out = result.putObject("record");
        out.put("topic", record.topic());
        out.put("partition", record.kafkaPartition());
        out.put("timestamp", record.timestamp());
        out.set("keySchema", json(record.keySchema()));
        out.set("key", json(record.key()));
        out.set("valueSchema", json(record.valueSchema()));
        out.set("value", json(record.value()));
        ArrayNode headers = out.putArray("headers");
        for (Header header : record.headers())
            headers.addArray().add(header.key()).add(json(header.value())).add(json(header.schema()));
    }

    static SourceRecord record(JsonNode node) {
        Schema keySchema = schema(node.get("keySchema"));
        Schema valueSchema = schema(node.get("valueSchema"));
        ConnectHeaders headers = new ConnectHeaders();
        if (node.has("headers"))
            for (JsonNode header : node.get("headers")) {
                Schema schema = schema(header.get(2));
                headers.add(header.get(0).asText(), value(schema, header.get(1)), schema);
            }
        return new SourceRecord(Map.of("p", 1), Map.of("o", 2),
            node.path("topic").asText("orders"),
            node.hasNonNull("partition") ? node.get("partition").intValue() : null,
            keySchema, value(keySchema, node.get("key")),
            valueSchema, value(valueSchema, node.get("value")),
            node.hasNonNull("timestamp") ? node.get("timestamp").longValue() : null, headers);
    }

    static void toBytes(JsonNode test, ObjectNode result) throws Exception {
        Schema schema = schema(test.get("schema"));
        Object value = value(schema, test.get("value"));
        Object converter = make(test);
        byte[] bytes;
        if (converter instanceof Converter c) {
            c.configure(config(test), false);
            bytes = c.fromConnectData("orders", schema, value);
        } else {
            bytes = ((HeaderConverter) converter).fromConnectHeader("orders", "h", schema, value);
        }
        result.put("bytes", bytes == null ? null : HEX.formatHex(bytes));
        if (bytes != null) result.put("text", new String(bytes, "UTF-8"));
    }

    static void fromBytes(JsonNode test, ObjectNode result) throws Exception {
        byte[] bytes = test.hasNonNull("text") ? test.get("text").asText().getBytes("UTF-8")
            : test.hasNonNull("bytes") ? HEX.parseHex(test.get("bytes").asText()) : null;
        Object converter = make(test);
        if (converter instanceof Converter c) {
            c.configure(config(test), false);
            put(result, c.toConnectData("orders", bytes));
        } else {
            put(result, ((HeaderConverter) converter).toConnectHeader("orders", "h", bytes));
        }
    }

    static void put(ObjectNode result, SchemaAndValue found) {
        result.set("schema", json(found == null ? null : found.schema()));
        result.set("value", json(found == null ? null : found.value()));
    }

    static Schema schema(JsonNode node) {
        if (node == null || node.isNull()) return null;
        if (node.isTextual()) {
            String text = node.asText();
            boolean optional = text.endsWith("?");
            String name = optional ? text.substring(0, text.length() - 1) : text;
            SchemaBuilder builder = switch (name) {
                case "Date" -> Date.builder();
                case "Time" -> Time.builder();
                case "Timestamp" -> Timestamp.builder();
                case "Decimal" -> Decimal.builder(2);
                default -> SchemaBuilder.type(Schema.Type.valueOf(name.toUpperCase()));
            };
            return optional ? builder.optional().build() : builder.build();
        }
        SchemaBuilder builder;
        Schema.Type type = Schema.Type.valueOf(node.get("type").asText().toUpperCase());
        if (type == Schema.Type.ARRAY) builder = SchemaBuilder.array(schema(node.get("items")));
        else if (type == Schema.Type.MAP) builder = SchemaBuilder.map(schema(node.get("keys")), schema(node.get("values")));
        else builder = SchemaBuilder.type(type);
        if (node.has("fields"))
            for (JsonNode field : node.get("fields")) builder.field(field.get(0).asText(), schema(field.get(1)));
        if (node.path("optional").asBoolean()) builder.optional();
        if (node.has("name")) builder.name(node.get("name").asText());
        if (node.has("version")) builder.version(node.get("version").intValue());
        if (node.has("doc")) builder.doc(node.get("doc").asText());
        if (node.has("parameters"))
            node.get("parameters").fields().forEachRemaining(e -> builder.parameter(e.getKey(), e.getValue().asText()));
        if (node.has("default")) builder.defaultValue(value(builder.build(), node.get("default")));
        return builder.build();
    }

    static Object value(Schema schema, JsonNode node) {
        if (node == null || node.isNull()) return null;
        if (schema != null && node.isNumber()) {
            switch (schema.type()) {
                case INT8: return (byte) node.intValue();
                case INT16: return (short) node.intValue();
                case INT32: return node.intValue();
                case FLOAT32: return node.floatValue();
                default:
            }
        }
        if (node.isBoolean()) return node.booleanValue();
        if (node.isTextual()) return node.textValue();
        if (node.isIntegralNumber()) return node.longValue();
        if (node.isNumber()) return node.doubleValue();
        if (node.isArray()) {
            List<Object> list = new ArrayList<>();
            for (JsonNode element : node) list.add(value(schema == null ? null : schema.valueSchema(), element));
            return list;
        }
        String kind = node.fieldNames().next();
        JsonNode content = node.get(kind);
        switch (kind) {
            case "i8": return (byte) content.intValue();
            case "i16": return (short) content.intValue();
            case "i32": return content.intValue();
            case "f32": return Float.parseFloat(content.asText());
            case "f64": return Double.parseDouble(content.asText());
            case "dec": return new BigDecimal(content.asText());
            case "date": return new java.util.Date(content.longValue());
            case "bytes": return HEX.parseHex(content.asText());
            case "map": {
                Map<Object, Object> map = new LinkedHashMap<>();
                for (JsonNode entry : content)
                    map.put(value(schema == null ? null : schema.keySchema(), entry.get(0)),
                        value(schema == null ? null : schema.valueSchema(), entry.get(1)));
                return map;
            }
            case "struct": {
                Struct struct = new Struct(schema);
                content.fields().forEachRemaining(e ->
                    struct.put(e.getKey(), value(schema.field(e.getKey()).schema(), e.getValue())));
                return struct;
            }
            default: throw new IllegalStateException(kind);
        }
    }

    static JsonNode json(Schema schema) {
        if (schema == null) return JSON.nullNode();
        ObjectNode node = JSON.createObjectNode();
        node.put("type", schema.type().name());
        if (schema.isOptional()) node.put("optional", true);
        if (schema.name() != null) node.put("name", schema.name());
        if (schema.version() != null) node.put("version", schema.version());
        if (schema.doc() != null) node.put("doc", schema.doc());
        if (schema.parameters() != null) {
            ArrayNode parameters = node.putArray("parameters");
            schema.parameters().forEach((k, v) -> parameters.addArray().add(k).add(v));
        }
        if (schema.defaultValue() != null) node.set("default", json(schema.defaultValue()));
        if (schema.type() == Schema.Type.STRUCT) {
            ArrayNode fields = node.putArray("fields");
            for (Field field : schema.fields()) fields.addArray().add(field.name()).add(json(field.schema()));
        }
        if (schema.type() == Schema.Type.MAP) node.set("keys", json(schema.keySchema()));
        if (schema.type() == Schema.Type.MAP || schema.type() == Schema.Type.ARRAY)
            node.set("values", json(schema.valueSchema()));
        return node;
    }

    static JsonNode json(Object value) {
        if (value == null) return JSON.nullNode();
        if (value instanceof Boolean b) return JSON.getNodeFactory().booleanNode(b);
        if (value instanceof String s) return JSON.getNodeFactory().textNode(s);
        ObjectNode node = JSON.createObjectNode();
        if (value instanceof Byte || value instanceof Short || value instanceof Integer || value instanceof Long)
            node.put("int", ((Number) value).longValue());
        else if (value instanceof Float) node.put("f32", value.toString());
        else if (value instanceof Double) node.put("f64", value.toString());
        else if (value instanceof BigDecimal) node.put("dec", value.toString());
        else if (value instanceof java.util.Date d) node.put("date", d.getTime());
        else if (value instanceof byte[] b) node.put("bytes", HEX.formatHex(b));
        else if (value instanceof List<?> list) {
            ArrayNode elements = node.putArray("list");
            for (Object element : list) elements.add(json(element));
        } else if (value instanceof Map<?, ?> map) {
            ArrayNode entries = node.putArray("map");
            map.forEach((k, v) -> entries.addArray().add(json(k)).add(json(v)));
        } else if (value instanceof Struct struct) {
            ArrayNode fields = node.putArray("struct");
            for (Field field : struct.schema().fields())
                fields.addArray().add(field.name()).add(json(struct.getWithoutDefault(field.name())));
        } else throw new IllegalStateException(value.getClass().getName());
        return node;
    }
}
