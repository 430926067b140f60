from connect.kafka_package import defer_clients

defer_clients()
