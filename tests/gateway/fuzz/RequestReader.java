import java.io.DataInputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.Map;
import org.apache.spark.connect.proto.*;
import org.sparkproject.connect.protobuf.CodedInputStream;
import org.sparkproject.connect.protobuf.InvalidProtocolBufferException;
import org.sparkproject.connect.protobuf.Message;
import org.sparkproject.connect.protobuf.Parser;

/**
 * Reads requests as Spark reads them, with Spark's own classes.
 *
 * <p>Standard input contains requests: the name of the method, and the encoded request, each with its length in four
 * bytes. For each request, a line is printed: {@code refused}, or the fields in hexadecimal, separated by spaces.
 */
public final class RequestReader {
  private static final int RECURSION_LIMIT = 1024; // Spark: spark.connect.grpc.marshallerRecursionLimit

  private static final Map<String, Parser<? extends Message>> PARSERS =
      Map.ofEntries(
          Map.entry("AddArtifacts", AddArtifactsRequest.parser()),
          Map.entry("AnalyzePlan", AnalyzePlanRequest.parser()),
          Map.entry("ArtifactStatus", ArtifactStatusesRequest.parser()),
          Map.entry("CloneSession", CloneSessionRequest.parser()),
          Map.entry("Config", ConfigRequest.parser()),
          Map.entry("ExecutePlan", ExecutePlanRequest.parser()),
          Map.entry("FetchErrorDetails", FetchErrorDetailsRequest.parser()),
          Map.entry("GetStatus", GetStatusRequest.parser()),
          Map.entry("Interrupt", InterruptRequest.parser()),
          Map.entry("ReattachExecute", ReattachExecuteRequest.parser()),
          Map.entry("ReleaseExecute", ReleaseExecuteRequest.parser()),
          Map.entry("ReleaseSession", ReleaseSessionRequest.parser()));

  public static void main(String[] arguments) throws IOException {
    DataInputStream in = new DataInputStream(System.in);
    PrintStream out = new PrintStream(System.out, false, StandardCharsets.US_ASCII);
    while (true) {
      int length = in.readInt();
      if (length < 0) {
        out.flush();
        continue;
      }
      String method = new String(in.readNBytes(length), StandardCharsets.US_ASCII);
      byte[] data = in.readNBytes(in.readInt());
      out.println(read(method, data));
    }
  }

  private static String read(String method, byte[] data) throws IOException {
    Message request;
    try {
      CodedInputStream stream = CodedInputStream.newInstance(data);
      stream.setRecursionLimit(RECURSION_LIMIT);
      request = PARSERS.get(method).parseFrom(stream);
      stream.checkLastTagWas(0);
    } catch (InvalidProtocolBufferException error) {
      return "refused";
    }
    UserContext user = (UserContext) request.getField(request.getDescriptorForType().findFieldByName("user_context"));
    StringBuilder line = new StringBuilder();
    line.append(hex(text(request, "session_id"))).append(' ');
    line.append(hex(user.getUserId())).append(' ');
    line.append(hex(user.getUserName())).append(' ');
    line.append(user.getExtensionsCount()).append(' ');
    line.append(hex(text(request, "client_type"))).append(' ');
    if (request instanceof ExecutePlanRequest execution) {
      line.append(hex(execution.getOperationId())).append(' ');
      line.append(execution.hasPlan() ? execution.getPlan().getOpTypeCase().name() : "NONE").append(' ');
      line.append(hex(sql(execution.getPlan()))).append(' ');
      line.append(execution.getTagsList().stream().map(RequestReader::hex).toList().toString().replace(" ", ""));
    } else if (request instanceof ReattachExecuteRequest reattach) {
      line.append(hex(reattach.getOperationId())).append(" NONE x []");
    } else if (request instanceof ReleaseExecuteRequest release) {
      line.append(hex(release.getOperationId())).append(" NONE x []");
    } else {
      line.append("x NONE x []");
    }
    return line.toString();
  }

  private static String sql(Plan plan) {
    Relation relation = plan.hasCommand() ? plan.getCommand().getSqlCommand().getInput() : plan.getRoot();
    return relation.getSql().getQuery();
  }

  private static String text(Message request, String field) {
    return (String) request.getField(request.getDescriptorForType().findFieldByName(field));
  }

  private static String hex(String text) {
    return "x" + HexFormat.of().formatHex(text.getBytes(StandardCharsets.UTF_8));
  }
}
