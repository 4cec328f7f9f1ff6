package tidemark.attach;

import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.SparkSessionExtensionsProvider;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import scala.runtime.AbstractFunction1;
import scala.runtime.BoxedUnit;

/**
 * Gives every session of a driver the rule that looks at queries as they start.
 *
 * <p>Spark finds it by {@code META-INF/services} where the jar is on the class path, without any conf. A class that
 * cannot be loaded is a warning of Spark's and no more.
 */
public final class TidemarkExtensions extends AbstractFunction1<SparkSessionExtensions, BoxedUnit>
        implements SparkSessionExtensionsProvider {
    @Override
    public BoxedUnit apply(SparkSessionExtensions extensions) {
        extensions.injectPostHocResolutionRule(new ForSession());
        return BoxedUnit.UNIT;
    }

    private static final class ForSession extends AbstractFunction1<SparkSession, Rule<LogicalPlan>> {
        @Override
        public Rule<LogicalPlan> apply(SparkSession session) {
            return new StartRule(session);
        }
    }
}
