module kvbench/exporter

go 1.25.0

require github.com/oliver006/redis_exporter v1.88.0
