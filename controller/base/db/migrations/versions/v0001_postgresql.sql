CREATE TABLE joins (
    id BIGSERIAL NOT NULL,
    job VARCHAR(200) NOT NULL,
    name VARCHAR(200) NOT NULL,
    updated_us BIGINT NOT NULL,
    specification TEXT NOT NULL,
    choice TEXT,
    CONSTRAINT pk_joins PRIMARY KEY (id),
    CONSTRAINT uq_joins_job_name UNIQUE (job, name)
);

CREATE TABLE leases (
    shard BIGINT NOT NULL,
    holder VARCHAR(64),
    fencing BIGINT DEFAULT '0' NOT NULL,
    CONSTRAINT pk_leases PRIMARY KEY (shard)
);

CREATE TABLE pins (
    job VARCHAR(200) NOT NULL,
    stream VARCHAR(200) NOT NULL,
    held_to VARCHAR(20) NOT NULL,
    reason TEXT NOT NULL,
    since_us BIGINT NOT NULL,
    CONSTRAINT pk_pins PRIMARY KEY (job, stream)
);

CREATE TABLE replicas (
    holder VARCHAR(64) NOT NULL,
    beats BIGINT DEFAULT '0' NOT NULL,
    CONSTRAINT pk_replicas PRIMARY KEY (holder)
);

CREATE TABLE store_epoch (
    id BIGINT NOT NULL,
    epoch VARCHAR(64) NOT NULL,
    CONSTRAINT pk_store_epoch PRIMARY KEY (id)
);

CREATE TABLE streams (
    id BIGSERIAL NOT NULL,
    job VARCHAR(200) NOT NULL,
    stream VARCHAR(200) NOT NULL,
    registered_us BIGINT,
    reports BIGINT DEFAULT '0' NOT NULL,
    duplicates BIGINT DEFAULT '0' NOT NULL,
    pairs BIGINT DEFAULT '0' NOT NULL,
    late_min BIGINT DEFAULT '0' NOT NULL,
    late_max BIGINT DEFAULT '0' NOT NULL,
    corrected_min BIGINT DEFAULT '0' NOT NULL,
    corrected_max BIGINT DEFAULT '0' NOT NULL,
    unjudged_rows BIGINT DEFAULT '0' NOT NULL,
    deleted_future_rows BIGINT DEFAULT '0' NOT NULL,
    deleted_misdated_rows BIGINT DEFAULT '0' NOT NULL,
    deleted_missing_batches BIGINT DEFAULT '0' NOT NULL,
    slo_generation BIGINT DEFAULT '0' NOT NULL,
    policy_generation BIGINT DEFAULT '0' NOT NULL,
    downstream TEXT,
    late TEXT,
    datasets TEXT,
    deleted_us BIGINT,
    deleted_name VARCHAR(200),
    CONSTRAINT pk_streams PRIMARY KEY (id),
    CONSTRAINT uq_streams_job_stream UNIQUE (job, stream)
);

CREATE TABLE tokens (
    id BIGSERIAL NOT NULL,
    name VARCHAR(64) NOT NULL,
    slot BIGINT,
    role VARCHAR(20) NOT NULL,
    jobs TEXT NOT NULL,
    digest VARCHAR(64) NOT NULL,
    created_us BIGINT NOT NULL,
    created_by VARCHAR(200) NOT NULL,
    expires_us BIGINT,
    last_used_us BIGINT,
    revoked_us BIGINT,
    revoked_by VARCHAR(200),
    CONSTRAINT pk_tokens PRIMARY KEY (id),
    CONSTRAINT uq_tokens_name_slot UNIQUE (name, slot),
    CONSTRAINT uq_tokens_digest UNIQUE (digest)
);

CREATE TABLE acknowledgements (
    id BIGSERIAL NOT NULL,
    stream_id BIGINT NOT NULL,
    query_id VARCHAR(64) NOT NULL,
    run_id VARCHAR(64) NOT NULL,
    bound_ms BIGINT NOT NULL,
    generation BIGINT,
    source VARCHAR(20) NOT NULL,
    mode VARCHAR(20) NOT NULL,
    applied_us BIGINT NOT NULL,
    ceiling_ms BIGINT,
    run_end VARCHAR(20),
    spark_ui TEXT,
    called BOOLEAN DEFAULT true NOT NULL,
    reads VARCHAR(200),
    conf_left_out TEXT,
    received_us BIGINT NOT NULL,
    fingerprint VARCHAR(64) NOT NULL,
    CONSTRAINT pk_acknowledgements PRIMARY KEY (id),
    CONSTRAINT uq_acknowledgements_stream_id_fingerprint UNIQUE (stream_id, fingerprint),
    CONSTRAINT fk_acknowledgements_stream_id_streams FOREIGN KEY(stream_id) REFERENCES streams (id)
);

CREATE INDEX ix_acknowledgements_stream_id_applied_us ON acknowledgements (stream_id, applied_us);

CREATE TABLE events (
    id BIGSERIAL NOT NULL,
    stream_id BIGINT,
    at_us BIGINT NOT NULL,
    kind VARCHAR(40) NOT NULL,
    reason TEXT NOT NULL,
    before TEXT,
    after TEXT,
    reason_class VARCHAR(40),
    count BIGINT DEFAULT '1' NOT NULL,
    last_us BIGINT NOT NULL,
    by VARCHAR(200),
    rollout_id BIGINT,
    rows BIGINT,
    report_id BIGINT,
    CONSTRAINT pk_events PRIMARY KEY (id),
    CONSTRAINT fk_events_stream_id_streams FOREIGN KEY(stream_id) REFERENCES streams (id)
);

CREATE INDEX ix_events_stream_id_id ON events (stream_id, id);

CREATE TABLE failed_bounds (
    id BIGSERIAL NOT NULL,
    stream_id BIGINT NOT NULL,
    rollout_id BIGINT NOT NULL,
    direction VARCHAR(20) NOT NULL,
    bound_ms BIGINT,
    envelope TEXT,
    why TEXT NOT NULL,
    until_us BIGINT NOT NULL,
    slo_generation BIGINT NOT NULL,
    policy_generation BIGINT NOT NULL,
    CONSTRAINT pk_failed_bounds PRIMARY KEY (id),
    CONSTRAINT fk_failed_bounds_stream_id_streams FOREIGN KEY(stream_id) REFERENCES streams (id)
);

CREATE INDEX ix_failed_bounds_stream_id_id ON failed_bounds (stream_id, id);

CREATE TABLE late_slots (
    stream_id BIGINT NOT NULL,
    dimension VARCHAR(200) NOT NULL,
    width_us BIGINT NOT NULL,
    slot_us BIGINT NOT NULL,
    counts TEXT NOT NULL,
    CONSTRAINT pk_late_slots PRIMARY KEY (stream_id, dimension, width_us, slot_us),
    CONSTRAINT fk_late_slots_stream_id_streams FOREIGN KEY(stream_id) REFERENCES streams (id)
);

CREATE TABLE late_steps (
    stream_id BIGINT NOT NULL,
    query_id VARCHAR(64) NOT NULL,
    first_batch BIGINT NOT NULL,
    last_batch BIGINT NOT NULL,
    hour_us BIGINT NOT NULL,
    received_us BIGINT NOT NULL,
    CONSTRAINT pk_late_steps PRIMARY KEY (stream_id, query_id, first_batch),
    CONSTRAINT fk_late_steps_stream_id_streams FOREIGN KEY(stream_id) REFERENCES streams (id)
);

CREATE TABLE ledger_keys (
    stream_id BIGINT NOT NULL,
    key_us BIGINT NOT NULL,
    rows BIGINT NOT NULL,
    late_min BIGINT NOT NULL,
    late_max BIGINT NOT NULL,
    CONSTRAINT pk_ledger_keys PRIMARY KEY (stream_id, key_us),
    CONSTRAINT fk_ledger_keys_stream_id_streams FOREIGN KEY(stream_id) REFERENCES streams (id)
);

CREATE TABLE live_states (
    stream_id BIGINT NOT NULL,
    report_id BIGINT NOT NULL,
    live TEXT,
    append_delay TEXT,
    contradiction TEXT,
    CONSTRAINT pk_live_states PRIMARY KEY (stream_id),
    CONSTRAINT fk_live_states_stream_id_streams FOREIGN KEY(stream_id) REFERENCES streams (id)
);

CREATE TABLE offsets (
    stream_id BIGINT NOT NULL,
    last_report_id BIGINT DEFAULT '0' NOT NULL,
    hours_until_us BIGINT DEFAULT '0' NOT NULL,
    days_until_us BIGINT DEFAULT '0' NOT NULL,
    rollups_from_us BIGINT DEFAULT '0' NOT NULL,
    reports_from_us BIGINT DEFAULT '0' NOT NULL,
    bodies_from_us BIGINT DEFAULT '0' NOT NULL,
    ledger_from_us BIGINT,
    aged_us BIGINT DEFAULT '0' NOT NULL,
    CONSTRAINT pk_offsets PRIMARY KEY (stream_id),
    CONSTRAINT fk_offsets_stream_id_streams FOREIGN KEY(stream_id) REFERENCES streams (id)
);

CREATE TABLE operators (
    stream_id BIGINT NOT NULL,
    number BIGINT NOT NULL,
    operator TEXT NOT NULL,
    CONSTRAINT pk_operators PRIMARY KEY (stream_id, number),
    CONSTRAINT fk_operators_stream_id_streams FOREIGN KEY(stream_id) REFERENCES streams (id)
);

CREATE TABLE overviews (
    stream_id BIGINT NOT NULL,
    seen_us BIGINT NOT NULL,
    report_id BIGINT NOT NULL,
    batch_gap_us BIGINT,
    effective_bound_ms BIGINT,
    bound_ms BIGINT,
    now_min_ppm BIGINT,
    now_max_ppm BIGINT,
    window_min_ppm BIGINT,
    window_max_ppm BIGINT,
    provisional BOOLEAN NOT NULL,
    remaining_ppm BIGINT,
    budget_course TEXT,
    conditions TEXT NOT NULL,
    partitions TEXT NOT NULL,
    most_skewed TEXT,
    lost TEXT,
    provisional_bound TEXT,
    windows TEXT,
    savings TEXT,
    CONSTRAINT pk_overviews PRIMARY KEY (stream_id),
    CONSTRAINT fk_overviews_stream_id_streams FOREIGN KEY(stream_id) REFERENCES streams (id)
);

CREATE TABLE partition_rollups (
    stream_id BIGINT NOT NULL,
    width_us BIGINT NOT NULL,
    slot_us BIGINT NOT NULL,
    needs BYTEA NOT NULL,
    CONSTRAINT pk_partition_rollups PRIMARY KEY (stream_id, width_us, slot_us),
    CONSTRAINT fk_partition_rollups_stream_id_streams FOREIGN KEY(stream_id) REFERENCES streams (id)
);

CREATE TABLE partitions (
    stream_id BIGINT NOT NULL,
    partition VARCHAR(200) NOT NULL,
    rows BIGINT NOT NULL,
    last_event_time_us BIGINT NOT NULL,
    last_seen_us BIGINT NOT NULL,
    first_seen_us BIGINT NOT NULL,
    batches BIGINT NOT NULL,
    behind_us BIGINT,
    future_rows BIGINT DEFAULT '0' NOT NULL,
    last_future_us BIGINT,
    misdated_rows BIGINT DEFAULT '0' NOT NULL,
    last_misdated_us BIGINT,
    misdated_event_us BIGINT,
    state VARCHAR(20),
    skewed BOOLEAN DEFAULT false NOT NULL,
    skewed_us BIGINT,
    pairs BIGINT,
    need_ms BIGINT,
    without_bound_ms BIGINT,
    costs_ms BIGINT,
    CONSTRAINT pk_partitions PRIMARY KEY (stream_id, partition),
    CONSTRAINT fk_partitions_stream_id_streams FOREIGN KEY(stream_id) REFERENCES streams (id)
);

CREATE TABLE policies (
    stream_id BIGINT NOT NULL,
    generation BIGINT NOT NULL,
    mode VARCHAR(20) NOT NULL,
    updated_us BIGINT NOT NULL,
    paused BOOLEAN DEFAULT false NOT NULL,
    paused_why TEXT,
    specification TEXT NOT NULL,
    CONSTRAINT pk_policies PRIMARY KEY (stream_id),
    CONSTRAINT fk_policies_stream_id_streams FOREIGN KEY(stream_id) REFERENCES streams (id)
);

CREATE TABLE predictions (
    stream_id BIGINT NOT NULL,
    generation BIGINT NOT NULL,
    expected TEXT NOT NULL,
    made_us BIGINT NOT NULL,
    horizon_ms BIGINT DEFAULT '0' NOT NULL,
    became_effective_us BIGINT,
    counted_report_id BIGINT DEFAULT '0' NOT NULL,
    restored_ms TEXT DEFAULT '{}' NOT NULL,
    judged TEXT NOT NULL,
    scored_us BIGINT,
    realised_ppm BIGINT,
    realised_max_ppm BIGINT,
    error_ppm BIGINT,
    CONSTRAINT pk_predictions PRIMARY KEY (stream_id, generation),
    CONSTRAINT fk_predictions_stream_id_streams FOREIGN KEY(stream_id) REFERENCES streams (id)
);

CREATE TABLE published_bounds (
    stream_id BIGINT NOT NULL,
    generation BIGINT NOT NULL,
    mode VARCHAR(20) NOT NULL,
    bound_ms BIGINT,
    reason TEXT NOT NULL,
    published_us BIGINT NOT NULL,
    envelope TEXT,
    pin VARCHAR(20),
    rollout_id BIGINT,
    rolled_back_id BIGINT,
    CONSTRAINT pk_published_bounds PRIMARY KEY (stream_id, generation),
    CONSTRAINT fk_published_bounds_stream_id_streams FOREIGN KEY(stream_id) REFERENCES streams (id)
);

CREATE TABLE queries (
    stream_id BIGINT NOT NULL,
    query_id VARCHAR(64) NOT NULL,
    first_batch BIGINT NOT NULL,
    last_batch BIGINT NOT NULL,
    reports BIGINT DEFAULT '0' NOT NULL,
    deleted_batch BIGINT,
    deleted_max_event_time_us BIGINT,
    early_us BIGINT,
    lead_us BIGINT,
    CONSTRAINT pk_queries PRIMARY KEY (stream_id, query_id),
    CONSTRAINT fk_queries_stream_id_streams FOREIGN KEY(stream_id) REFERENCES streams (id)
);

CREATE TABLE recent_bounds (
    stream_id BIGINT NOT NULL,
    at_us BIGINT NOT NULL,
    slo_generation BIGINT NOT NULL,
    bound_ms BIGINT NOT NULL,
    CONSTRAINT pk_recent_bounds PRIMARY KEY (stream_id, at_us),
    CONSTRAINT fk_recent_bounds_stream_id_streams FOREIGN KEY(stream_id) REFERENCES streams (id)
);

CREATE TABLE recommendations (
    stream_id BIGINT NOT NULL,
    decided_us BIGINT NOT NULL,
    bound_ms BIGINT,
    steps TEXT NOT NULL,
    conflict BOOLEAN NOT NULL,
    newest_report_id BIGINT NOT NULL,
    slo_generation BIGINT NOT NULL,
    policy_generation BIGINT NOT NULL,
    horizon_ms BIGINT DEFAULT '0' NOT NULL,
    in_use TEXT NOT NULL,
    transition TEXT,
    fencing BIGINT,
    CONSTRAINT pk_recommendations PRIMARY KEY (stream_id),
    CONSTRAINT fk_recommendations_stream_id_streams FOREIGN KEY(stream_id) REFERENCES streams (id)
);

CREATE TABLE reports (
    id BIGSERIAL NOT NULL,
    stream_id BIGINT NOT NULL,
    query_id VARCHAR(64) NOT NULL,
    run_id VARCHAR(64) NOT NULL,
    batch_id BIGINT NOT NULL,
    received_us BIGINT NOT NULL,
    seen_us BIGINT NOT NULL,
    started_us BIGINT NOT NULL,
    duration_ms BIGINT NOT NULL,
    operator_number BIGINT NOT NULL,
    keys_per_row BIGINT NOT NULL,
    output_mode VARCHAR(20) NOT NULL,
    bound_ms BIGINT NOT NULL,
    generation BIGINT,
    late_watermark_ms BIGINT,
    watermark_ms BIGINT NOT NULL,
    late_base_ms BIGINT,
    max_event_time_us BIGINT,
    latest_us BIGINT NOT NULL,
    driver_ahead_us BIGINT,
    rows_ahead_us BIGINT,
    rows BIGINT NOT NULL,
    null_rows BIGINT NOT NULL,
    uncounted_rows BIGINT NOT NULL,
    state_rows BIGINT NOT NULL,
    state_bytes BIGINT NOT NULL,
    dropped_by_spark BIGINT NOT NULL,
    dropped_reports BIGINT NOT NULL,
    first_key_us BIGINT,
    pairs BIGINT NOT NULL,
    late_min BIGINT NOT NULL,
    late_max BIGINT NOT NULL,
    corrected_min BIGINT DEFAULT '0' NOT NULL,
    corrected_max BIGINT DEFAULT '0' NOT NULL,
    unjudged_rows BIGINT NOT NULL,
    need_base_ms BIGINT,
    need_pairs BIGINT NOT NULL,
    need_unknown_rows BIGINT NOT NULL,
    early_rows BIGINT NOT NULL,
    future_rows BIGINT DEFAULT '0' NOT NULL,
    misdated_rows BIGINT DEFAULT '0' NOT NULL,
    misdated_late BIGINT DEFAULT '0' NOT NULL,
    misdated_pairs BIGINT DEFAULT '0' NOT NULL,
    excessive_rows BIGINT DEFAULT '0' NOT NULL,
    replayed_rows BIGINT DEFAULT '0' NOT NULL,
    fingerprint VARCHAR(64) NOT NULL,
    CONSTRAINT pk_reports PRIMARY KEY (id),
    CONSTRAINT uq_reports_stream_id_query_id_batch_id UNIQUE (stream_id, query_id, batch_id),
    CONSTRAINT fk_reports_stream_id_streams FOREIGN KEY(stream_id) REFERENCES streams (id)
);

CREATE INDEX ix_reports_stream_id_generation_seen_us ON reports (stream_id, generation, seen_us);

CREATE INDEX ix_reports_stream_id_id ON reports (stream_id, id);

CREATE INDEX ix_reports_stream_id_query_id_max_event_time_us_batch_id ON reports (stream_id, query_id, max_event_time_us, batch_id);

CREATE INDEX ix_reports_stream_id_seen_us ON reports (stream_id, seen_us);

CREATE TABLE rollouts (
    id BIGSERIAL NOT NULL,
    stream_id BIGINT NOT NULL,
    state VARCHAR(20) NOT NULL,
    reason TEXT NOT NULL,
    held_by VARCHAR(40),
    cause VARCHAR(20) NOT NULL,
    direction VARCHAR(20) NOT NULL,
    first BOOLEAN NOT NULL,
    mode VARCHAR(20) NOT NULL,
    from_bound_ms BIGINT,
    to_bound_ms BIGINT,
    from_envelope TEXT,
    to_envelope TEXT,
    in_use_bound_ms BIGINT,
    generation BIGINT,
    slo_generation BIGINT NOT NULL,
    policy_generation BIGINT NOT NULL,
    report_id BIGINT NOT NULL,
    predicted TEXT NOT NULL,
    created_us BIGINT NOT NULL,
    changed_us BIGINT NOT NULL,
    approved_us BIGINT,
    approved_by VARCHAR(200),
    approval_reason TEXT,
    vetoed BOOLEAN DEFAULT false NOT NULL,
    published_us BIGINT,
    acknowledged_us BIGINT,
    effective_us BIGINT,
    judged TEXT NOT NULL,
    needed_rows BIGINT DEFAULT '0' NOT NULL,
    ended_us BIGINT,
    effective_watermark_ms BIGINT,
    at_risk_from_ms BIGINT,
    counted_report_id BIGINT DEFAULT '0' NOT NULL,
    at_risk TEXT NOT NULL,
    event_ms BIGINT DEFAULT '0' NOT NULL,
    needed_event_ms BIGINT DEFAULT '0' NOT NULL,
    lost_rows BIGINT DEFAULT '0' NOT NULL,
    waits_us BIGINT,
    gate_answers TEXT NOT NULL,
    missed_us BIGINT,
    CONSTRAINT pk_rollouts PRIMARY KEY (id),
    CONSTRAINT fk_rollouts_stream_id_streams FOREIGN KEY(stream_id) REFERENCES streams (id)
);

CREATE INDEX ix_rollouts_state_id ON rollouts (state, id);

CREATE INDEX ix_rollouts_stream_id_id ON rollouts (stream_id, id);

CREATE TABLE rollups (
    stream_id BIGINT NOT NULL,
    width_us BIGINT NOT NULL,
    slot_us BIGINT NOT NULL,
    batches BIGINT NOT NULL,
    rows BIGINT NOT NULL,
    uncounted_rows BIGINT NOT NULL,
    pairs BIGINT NOT NULL,
    late_min BIGINT NOT NULL,
    late_max BIGINT NOT NULL,
    corrected_min BIGINT NOT NULL,
    corrected_max BIGINT NOT NULL,
    unjudged_rows BIGINT NOT NULL,
    need_pairs BIGINT NOT NULL,
    need_unknown_rows BIGINT NOT NULL,
    early_rows BIGINT NOT NULL,
    future_rows BIGINT NOT NULL,
    misdated_rows BIGINT NOT NULL,
    misdated_late BIGINT NOT NULL,
    excessive_rows BIGINT NOT NULL,
    replayed_rows BIGINT NOT NULL,
    keys_per_row BIGINT NOT NULL,
    from_us BIGINT NOT NULL,
    newest_us BIGINT NOT NULL,
    bound_ms BIGINT NOT NULL,
    effective_bound_ms BIGINT,
    state_rows BIGINT NOT NULL,
    batch_ranges TEXT NOT NULL,
    needs BYTEA NOT NULL,
    late_batches BYTEA NOT NULL,
    CONSTRAINT pk_rollups PRIMARY KEY (stream_id, width_us, slot_us),
    CONSTRAINT fk_rollups_stream_id_streams FOREIGN KEY(stream_id) REFERENCES streams (id)
);

CREATE TABLE slos (
    stream_id BIGINT NOT NULL,
    generation BIGINT NOT NULL,
    target_ppm BIGINT NOT NULL,
    updated_us BIGINT NOT NULL,
    specification TEXT NOT NULL,
    join_id BIGINT,
    CONSTRAINT pk_slos PRIMARY KEY (stream_id),
    CONSTRAINT fk_slos_stream_id_streams FOREIGN KEY(stream_id) REFERENCES streams (id),
    CONSTRAINT fk_slos_join_id_joins FOREIGN KEY(join_id) REFERENCES joins (id)
);

CREATE TABLE window_ages (
    stream_id BIGINT NOT NULL,
    key_us BIGINT NOT NULL,
    slot BIGINT NOT NULL,
    rows BIGINT NOT NULL,
    CONSTRAINT pk_window_ages PRIMARY KEY (stream_id, key_us, slot),
    CONSTRAINT fk_window_ages_stream_id_streams FOREIGN KEY(stream_id) REFERENCES streams (id)
);

CREATE TABLE report_bodies (
    report_id BIGINT NOT NULL,
    body BYTEA NOT NULL,
    needs BYTEA,
    CONSTRAINT pk_report_bodies PRIMARY KEY (report_id),
    CONSTRAINT fk_report_bodies_report_id_reports FOREIGN KEY(report_id) REFERENCES reports (id)
);
