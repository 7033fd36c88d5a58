"""What needs several servers: Sentinel, Cluster, TLS."""
