# A topic with two settings of its own, and the broker's defaults behind them.
run "$servers" example-admin
prints 'cleanup.policy=compact, otherwise log.cleanup.policy=delete' 'retention.ms=3600000'
