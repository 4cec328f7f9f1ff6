# Gives the alerts on streams a label that the streams' policies have, here `team`, so that Alertmanager can route by it;
# it is `none` where a stream has no such label. The controller needs TIDEMARK_METRICS_LABELS=team. In the chart:
# prometheusRule.streamLabels. For another name, or further ones, change or repeat the name.
#   sed -i -f stream-labels.sed rules/tidemark-alerts.yaml
/^ *# + labels of the stream$/i\
          team: '{{ with printf "tidemark_stream_info{cluster=%q,namespace=%q,spark_job=%q,stream=%q}" .Labels.cluster .Labels.namespace .Labels.spark_job .Labels.stream | query }}{{ with . | first | label "team" }}{{ . }}{{ else }}none{{ end }}{{ else }}none{{ end }}'
