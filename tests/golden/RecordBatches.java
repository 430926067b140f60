import java.nio.ByteBuffer;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.StringJoiner;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.EndTransactionMarker;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.ByteBufferOutputStream;

/**
 * Record batches as Apache Kafka writes them, and the records as Apache Kafka reads them.
 *
 * Without arguments: prints record_batches.json (java -cp 'kafka jars' RecordBatches.java).
 * With "read": reads one batch in hex from each line of standard input, prints its records as JSON.
 */
public class RecordBatches {
    static final long TIME = 1_700_000_000_000L;
    static final HexFormat HEX = HexFormat.of();

    public static void main(String[] args) throws Exception {
        if (args.length > 0 && args[0].equals("read")) {
            var lines = new java.io.BufferedReader(new java.io.InputStreamReader(System.in));
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                System.out.println(records(MemoryRecords.readableRecords(ByteBuffer.wrap(HEX.parseHex(line)))));
            }
            return;
        }
        List<String> cases = new ArrayList<>();
        for (CompressionType type : CompressionType.values()) {
            for (byte magic = 0; magic <= 2; magic++) {
                if (type == CompressionType.ZSTD && magic < 2) continue;
                String name = "magic " + magic + " " + type.name;
                cases.add(print(name, small(builder(magic, type, TimestampType.CREATE_TIME, -1L), magic)));
                if (magic > 0) {
                    cases.add(print(name + " LogAppendTime",
                        small(builder(magic, type, TimestampType.LOG_APPEND_TIME, -1L), magic)));
                }
                if (type != CompressionType.NONE) {
                    cases.add(print(name + " large", large(builder(magic, type, TimestampType.CREATE_TIME, -1L))));
                }
            }
            cases.add(print("magic 2 " + type.name + " delete horizon",
                small(builder((byte) 2, type, TimestampType.CREATE_TIME, TIME + 86_400_000L), (byte) 2)));
            cases.add(print("magic 2 " + type.name + " compacted", gaps(builder((byte) 2, type, TimestampType.CREATE_TIME, -1L))));
        }
        cases.add(print("magic 2 none commit marker", MemoryRecords.withEndTransactionMarker(
            500L, TIME, 3, 4000L, (short) 2, new EndTransactionMarker(ControlRecordType.COMMIT, 7))));
        System.out.println("[\n" + String.join(",\n", cases) + "\n]");
    }

    static MemoryRecordsBuilder builder(byte magic, CompressionType type, TimestampType timestamps, long deleteHorizon) {
        long appendTime = timestamps == TimestampType.LOG_APPEND_TIME ? TIME + 5_000 : RecordBatch.NO_TIMESTAMP;
        boolean producer = magic == 2;
        return new MemoryRecordsBuilder(new ByteBufferOutputStream(1 << 20), magic, Compression.of(type).build(),
            timestamps, 100L, appendTime, producer ? 4000L : -1L, producer ? (short) 2 : (short) -1,
            producer ? 9 : -1, producer, false, producer ? 3 : -1, 1 << 20, deleteHorizon);
    }

    static MemoryRecords small(MemoryRecordsBuilder builder, byte magic) {
        Header[] none = {};
        Header[] some = magic < 2 ? none : new Header[] {
            new RecordHeader("a", bytes("1")), new RecordHeader("a", null), new RecordHeader("", new byte[0]),
            new RecordHeader("größe", bytes("2"))};
        builder.append(TIME + 70, bytes("key"), bytes("value"), none);
        builder.append(TIME, null, bytes("no key"), some);
        builder.append(TIME + 20_000, bytes("tombstone"), null, none);
        builder.append(TIME + 20_000, new byte[0], new byte[0], some);
        builder.append(TIME - 3_000_000, (byte[]) null, null, none);
        return builder.build();
    }

    static MemoryRecords large(MemoryRecordsBuilder builder) {
        for (int i = 0; i < 4; i++) {
            builder.append(TIME + i, bytes("key " + i), bytes(("line " + i + " of a value that compresses; ").repeat(1500)));
        }
        return builder.build();
    }

    static MemoryRecords gaps(MemoryRecordsBuilder builder) {
        for (long offset : new long[] {102, 103, 110, 400}) {
            builder.appendWithOffset(offset, TIME + offset, bytes("key " + offset), bytes("value " + offset));
        }
        builder.overrideLastOffset(20_000L);
        return builder.build();
    }

    static byte[] bytes(String text) {
        return text.getBytes(java.nio.charset.StandardCharsets.UTF_8);
    }

    static String print(String name, MemoryRecords batches) throws Exception {
        ByteBuffer buffer = batches.buffer().duplicate();
        byte[] data = new byte[buffer.remaining()];
        buffer.get(data);
        return "{\"name\": \"" + name + "\",\n \"data\": \"" + HEX.formatHex(data) + "\",\n \"records\": " + records(batches) + "}";
    }

    static String records(MemoryRecords batches) throws Exception {
        StringJoiner all = new StringJoiner(",\n  ", "[", "]");
        for (MutableRecordBatch batch : batches.batches()) {
            batch.ensureValid();
            for (Record record : batch) {
                StringJoiner headers = new StringJoiner(", ", "[", "]");
                for (Header header : record.headers()) {
                    headers.add("[\"" + header.key() + "\", " + field(header.value() == null ? null : ByteBuffer.wrap(header.value())) + "]");
                }
                all.add("[" + record.offset() + ", " + record.timestamp() + ", " + field(record.key()) + ", "
                    + field(record.value()) + ", " + headers + "]");
            }
        }
        return all.toString();
    }

    /** Hex, or for long values a digest, which keeps the file small. */
    static String field(ByteBuffer buffer) throws Exception {
        if (buffer == null) return "null";
        byte[] data = new byte[buffer.remaining()];
        buffer.duplicate().get(data);
        if (data.length <= 200) return "\"" + HEX.formatHex(data) + "\"";
        return "\"sha256 " + HEX.formatHex(MessageDigest.getInstance("SHA-256").digest(data)) + "\"";
    }
}
