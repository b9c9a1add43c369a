import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.StringJoiner;
import org.antlr.v4.runtime.CharStreams;
import org.antlr.v4.runtime.Token;
import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation;
import org.apache.spark.sql.catalyst.parser.SqlBaseLexer;
import org.apache.spark.sql.catalyst.parser.UpperCaseCharStream;
import org.apache.spark.sql.catalyst.plans.logical.UnresolvedWith;
import org.apache.spark.sql.execution.SparkSqlParser;
import scala.Product;
import scala.collection.Iterable;
import scala.collection.Iterator;
import scala.collection.Seq;

/**
 * Reads SQL texts as Spark reads them, with Spark's own lexer and parser.
 *
 * <p>Standard input contains texts, each with its length in four bytes. For each text, two lines are printed: its tokens
 * as {@code KIND:start:end}, and the names in its plan as {@code kind:part.part} with parts in hexadecimal, or {@code
 * refused}. Everything is printed at the length -1.
 */
public final class SparkSqlReader {
  private static final long STACK_BYTES = 256L * 1024 * 1024;

  private final StringJoiner names = new StringJoiner(" ");

  public static void main(String[] arguments) throws InterruptedException {
    Thread thread = new Thread(null, SparkSqlReader::answer, "reader", STACK_BYTES);
    thread.start();
    thread.join();
  }

  private static void answer() {
    SparkSqlParser parser = new SparkSqlParser();
    DataInputStream in = new DataInputStream(System.in);
    PrintStream out = new PrintStream(new BufferedOutputStream(System.out), false, StandardCharsets.US_ASCII);
    try {
      while (true) {
        int length = in.readInt();
        if (length < 0) {
          out.flush();
          continue;
        }
        String text = new String(in.readNBytes(length), StandardCharsets.UTF_8);
        out.println(readTokens(text));
        out.println(readNames(parser, text));
      }
    } catch (EOFException end) {
      return;
    } catch (IOException error) {
      throw new IllegalStateException(error);
    }
  }

  private static String readTokens(String text) {
    SqlBaseLexer lexer = new SqlBaseLexer(new UpperCaseCharStream(CharStreams.fromString(text)));
    lexer.removeErrorListeners();
    StringJoiner tokens = new StringJoiner(" ");
    for (Token each = lexer.nextToken(); each.getType() != Token.EOF; each = lexer.nextToken()) {
      if (each.getChannel() == Token.DEFAULT_CHANNEL) {
        String kind = SqlBaseLexer.VOCABULARY.getSymbolicName(each.getType());
        tokens.add(kind + ":" + each.getStartIndex() + ":" + (each.getStopIndex() + 1));
      }
    }
    return tokens.toString();
  }

  private static String readNames(SparkSqlParser parser, String text) {
    SparkSqlReader reader = new SparkSqlReader();
    try {
      reader.visit(parser.parsePlan(text));
    } catch (Exception error) {
      return "refused";
    }
    return reader.names.toString();
  }

  /** Visits everything in a plan, also the plans of subqueries, common table expressions and statements of scripts. */
  private void visit(Object value) {
    if (value instanceof UnresolvedRelation relation) {
      add("TABLE", relation.multipartIdentifier());
    } else if (value instanceof UnresolvedAttribute attribute) {
      add("COLUMN", attribute.nameParts());
    } else if (value instanceof UnresolvedWith with) {
      Iterator<?> each = with.cteRelations().iterator();
      while (each.hasNext()) {
        addName("COMMON", ((Product) each.next()).productElement(0));
      }
      visitElements(with);
    } else if (value instanceof Iterable<?> values) {
      Iterator<?> each = values.iterator();
      while (each.hasNext()) {
        visit(each.next());
      }
    } else if (value instanceof Product node) {
      visitElements(node);
    }
  }

  private void visitElements(Product node) {
    Iterator<?> each = node.productIterator();
    while (each.hasNext()) {
      Object element = each.next();
      if (element instanceof Seq<?> parts && !parts.isEmpty() && parts.head() instanceof String) {
        add(node.getClass().getSimpleName(), parts);
      }
      visit(element);
    }
  }

  private void add(String kind, Seq<?> parts) {
    StringJoiner name = new StringJoiner(".");
    Iterator<?> each = parts.iterator();
    while (each.hasNext()) {
      name.add(encode(each.next()));
    }
    names.add(kind + ":" + name);
  }

  private void addName(String kind, Object name) {
    names.add(kind + ":" + encode(name));
  }

  private static String encode(Object part) {
    return HexFormat.of().formatHex(part.toString().getBytes(StandardCharsets.UTF_8));
  }
}
