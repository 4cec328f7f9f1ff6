package tidemark;

import org.apache.spark.sql.catalyst.expressions.CurrentBatchTimestamp;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.ScalaUDF;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.types.UTF8String;
import scala.Function1;
import scala.Option;
import scala.collection.immutable.$colon$colon;
import scala.collection.immutable.Nil$;
import scala.runtime.AbstractPartialFunction;

/**
 * Gives {@link SetBack} the clock of a batch as a text.
 *
 * <p>Spark writes numbers into the code that it compiles, which would be compiled anew in each batch, and texts beside it.
 * What stands in the plan is interpreted so that this does not happen, and Spark compiles no stage with such a part: each
 * row would be copied on its way. So it is replaced in the optimised plan.
 */
public final class BatchClock extends AbstractPartialFunction {
    private static final long MICROS_A_MILLI = 1000L;

    /** Returns a plan with the clock as a text wherever an event time is set back. */
    public static LogicalPlan asText(LogicalPlan plan) {
        return (LogicalPlan) plan.transformAllExpressions(new BatchClock());
    }

    public boolean isDefinedAt(Object expression) {
        return changed(expression) != null;
    }

    public Object applyOrElse(Object expression, Function1 otherwise) {
        Object changed = changed(expression);
        return changed == null ? otherwise.apply(expression) : changed;
    }

    private static Expression changed(Object expression) {
        if (!(expression instanceof ScalaUDF)) {
            return null;
        }
        ScalaUDF call = (ScalaUDF) expression;
        Option name = call.udfName();
        if (name.isEmpty() || !name.get().equals(SetBack.NAME)) {
            return null;
        }
        Expression clock = (Expression) call.children().apply(1);
        CurrentBatchTimestamp time = timeIn(clock);
        if (time == null) {
            return null;
        }
        String text = Long.toString(time.timestampMs() * MICROS_A_MILLI);
        Literal literal = new Literal(UTF8String.fromString(text), DataTypes.StringType);
        Object first = call.children().apply(0);
        return (Expression) call.withNewChildren(new $colon$colon(first, new $colon$colon(literal, Nil$.MODULE$)));
    }

    /** Returns the clock in an expression of one child below another; null where there is none. */
    private static CurrentBatchTimestamp timeIn(Expression expression) {
        if (expression instanceof CurrentBatchTimestamp) {
            return (CurrentBatchTimestamp) expression;
        }
        CurrentBatchTimestamp time = null;
        for (int i = 0; i < expression.children().size() && time == null; i++) {
            time = timeIn((Expression) expression.children().apply(i));
        }
        return time;
    }
}
