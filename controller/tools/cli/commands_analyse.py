"""The commands over traces, programs and checkpoints: ``command_table`` reads them."""

from __future__ import annotations

ANALYSE = """
trace -> lab.traces.command:trace plain extra=trace
  Make a trace, a Parquet file of recorded arrivals.

  It reads files in Parquet, newline-delimited JSON or CSV, a Kafka topic, or what a running controller holds of a
  stream. From Kafka it reads what the topic holds when the command begins, and changes nothing there.
  - sources <SOURCE> path * ?: Files, or folders of files; with --from controller, JOB and STREAM.
  - --output -o path !: Parquet file to write the trace to.
  - --event-time = event_time: Column of the event time.
  - --arrival: Column of the arrival time. Default with --from kafka: the timestamp of the message.
  - --arrival-from-file-time flag: Take the modification time of each file as the arrival time.
  - --partition: Column of the partition. Default: the name of the file.
  - --unit s|ms|us|ns: Unit of times that are numbers.
  - --format file_format parquet|json|csv: Format of the files. Default: by their names.
  - --skip-nulls flag: Leave out rows with a null instead of rejecting them.
  - --from source_kind files|kafka|controller = files: Read files, a Kafka topic whose messages are JSON objects, or
      what a job has reported.
  - --bootstrap-servers: Kafka: address, host:port.
  - --topic: Kafka: name of the topic.
  - --since: Kafka and controller: how far back to read, such as 2h. Default: the whole topic, or 6h of reports.
  - --event-time-from value|header|timestamp = value: Kafka: where the event time is: in the value, in a header, or
      the timestamp of the message.
  - --client-settings path: Kafka: properties file for the client, such as for TLS and a login.
  + URL TOKEN_FILE

curve -> lab.curve.command:curve itself extra=trace
  Show completeness and latency by bound, for a trace or a stream.

  For a trace it also chooses the smallest bound that its rows certify for the target. With JOB STREAM it asks a
  running controller.
  - trace <TRACE|JOB> path: A trace made by `tidemark trace`; or, before STREAM, the name of a job.
  - stream ?: Name of the stream, to show a stream and not a trace.
  - --window: Size of the windows; 0 for a row-level operator. Default: 10s.
  + SLIDE
  - --session-gap: Gap of session windows, instead of --window.
  - --trigger = 1s: Spark's processing-time trigger.
  - --bounds: Bounds to show, such as 0,2s,5s; bare numbers are seconds. Default: chosen from the data.
  - --grace: Time that a window is still corrected after the bound, such as 5s,15s: shows what it admits then.
  - --target = 0.99: Completeness target, a decimal share such as 0.99.
  - --confidence = 0.95: Confidence with which rows to come must meet the target, as in an SLO; none: the trace alone
      counts.
  - --latency-cap: Maximum mean latency, such as 12s.
  - --latency base|wall = base: Which latency the cap limits: base, by event time, or wall, by the clock.
  + URL TOKEN_FILE

lookback -> lab.lookback.command:lookback itself extra=trace
  Show how far back each batch run must read again, for a table with both times.

  It shows the smallest look-back that keeps the target, the sets of periods that cost least, what each keeps and costs,
  and the trend. Exit code: 0, or 1 when the rows do not tell, 2 when they cannot be used.
  - sources <SOURCE> *: Files or folders of files in Parquet, JSON or CSV; or the folder of a Delta or Iceberg table,
      the URL of a database for SQLAlchemy, or - for standard input.
  - --event-time !: Column of the event time.
  - --loaded-at !: Column of when the row was loaded.
  - --every = 1d: Length of a period, and how often there is a run.
  - --at = 0: How long after the end of a period its run starts, such as 3h.
  - --target = 99.5%: Share of the rows to keep.
  - --confidence = 0.95: Confidence with which periods to come must meet the target; none: the table alone counts.
  - --table: Of a database: the table, or a query.
  - --unit s|ms|us|ns: Unit of times that are numbers.
  - --format file_format parquet|json|csv: Format of the files. Default: by their names; CSV for standard input.
  - --skip-nulls flag: Leave out rows with a null instead of rejecting them.
  - --for tool dbt|sqlmesh: Print the configuration of this tool instead.

backtest -> lab.backtest.command:backtest itself extra=trace
  Replay traces under policies and compare the policies, or try a target on a stream.

  It shows completeness and latency of each policy, and of the best fixed bound and the best that is possible at all.
  With JOB STREAM it asks a running controller for what the job has reported, and replays it under the SLO in force
  and under the target and the cap that are tried; nothing changes for the job.
  - traces <TRACE...|JOB STREAM> path *: Traces made by `tidemark trace`; or the names of a job and a stream of a
      running controller.
  - --target: Completeness target, a decimal share such as 0.99. Default: 0.99, or for a stream that of its SLO.
  - --objective occurrences|timeslices = occurrences: What must meet the target: occurrences, all rows together;
      timeslices, each of 99 % of the windows.
  - --window = 10s: Size of the windows; 0 for a row-level operator.
  + SLIDE
  - --trigger = 1s: Spark's processing-time trigger.
  - --mode live|restart = live: How a new bound reaches the job: live, while it runs, or by a restart.
  - --restart-cost = 30s: With --mode restart: time without batches at each change of the bound.
  - --horizon: With the policy tidemark and --mode restart: how far back evidence counts, up to 31d. Default: 1d,
      longer where a day has too few rows. For a stream: the horizon to try, or none for that default.
  - --latency-cap: With the policy tidemark and --mode live: no window waits longer, even if the target is missed. For
      a stream: the cap to try, or none.
  - --policy <NAME> *: Policy to replay; may be repeated; all stands for one of each kind. Default: tidemark.
      Policies: tidemark, fixed-hindsight, flink-hindsight, flink-quarter, flink, max60,
      fixed:<duration>, flink:<bound>[:<idle timeout>[:<tick>]].
  - --timeline <FILE.parquet> path: Write the batches to this file; for one trace under one policy.
  - --since = 6h: For a stream: how far back from its newest report to begin.
  + URL TOKEN_FILE

lint -> spark_programs:lint itself extra=spark
  Check the joins and stateful operators of a job's streams before it starts.

  The file is run up to where it would wait for a query, and no query starts: what it does before that is done. Exit
  code: 0 without errors, 1 with one, 2 when the job cannot be checked.
  - job: A Python file that starts queries, or FILE:FUNCTION for one that returns streaming DataFrames.
  - arguments <ARGUMENT> * ?: The file's own arguments, behind --.
  - --bound: Show what this bound of all inputs, such as '30 s', would decide. Default: those in the plan.

run -> spark_programs:run plain whole extra=spark
  Run a PySpark program that does not call Tidemark, with the watermarks of its queries watched.

  Spark's conf says where the controller is, spark.tidemark.controller.url, and what the job is called,
  spark.tidemark.job. No query is rejected, and if Tidemark fails they run as they are.
  - job <JOB.py> ?: A PySpark program, as it is.
  - arguments <ARGUMENT> * ?: The program's own arguments.
  + CONF
  - --path flag: Print the file that spark-submit takes before JOB.py, and run nothing: spark-submit ... $(tidemark
      run --path) JOB.py

inspect -> spark_programs:inspect itself extra=spark
  Show what a query's checkpoint holds: watermarks, sources, operators, open windows and rows of state.

  The query may run meanwhile, watched by Tidemark or not: the checkpoint is only read, as of its last committed
  batch. Exit code: 0 when all is read, 1 when some of the state is not, 2 when the folder is no checkpoint.
  + CHECKPOINT
  - --limit 1.. = 20: Maximum number of batches, and of windows of each operator.
  + CONF

demo -> spark_programs:demo plain extra=demo
  Run a real Spark job with a guessed bound, restart it with the one that is recommended, and compare.
  - --keep flag: Go on until Ctrl-C, with rows of now and a page to watch.
  - --kafka flag: Send the rows through a Kafka broker, which is started too.
  - --trace path: A trace of your own rows, which `tidemark trace` makes. Default: made-up rows.
  - --window: Length of the windows. Default: 10s; with --trace by the time that it spans.
  - --guess: The bound that somebody guessed. Default: 2s; with --trace the window's length.
  - --safe: The bound that somebody thinks is safe. Default: 60s; with --trace ten times the guess.
  - --slots 1.. = 120: With --trace: maximum number of batches.
  - --target = 0.995: Completeness to reach, such as 0.995.
"""
