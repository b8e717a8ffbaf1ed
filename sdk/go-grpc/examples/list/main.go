package main

import (
	_ "anycloud.sh/sdk-go-grpc/anycloudapi/cluster/v1"
	_ "anycloud.sh/sdk-go-grpc/anycloudapi/deployment/v1"
	_ "anycloud.sh/sdk-go-grpc/anycloudapi/nodepool/v1"
	_ "anycloud.sh/sdk-go-grpc/anycloudapi/release/v1"
)

func main() {}
