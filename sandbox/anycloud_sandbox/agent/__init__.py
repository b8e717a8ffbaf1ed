"""One kubelet for all Nodes: joins machines to their clusters and runs Pods as local processes."""
