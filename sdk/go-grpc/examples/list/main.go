// Lists the Deployments with native gRPC, or shows one of them.
//
//	ANYCLOUD_API_URL=… ANYCLOUD_API_TOKEN=… list [DEPLOYMENT]
//
// An error is printed with the contract's code, which google.rpc.Status carries as ErrorInfo.reason.
package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/url"
	"os"
	"time"

	deploymentv1 "anycloud.sh/sdk-go-grpc/anycloudapi/deployment/v1"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// The API serves clients of its own version.
const version = "0.1.70"

func main() {
	if err := run(os.Getenv("ANYCLOUD_API_URL"), os.Getenv("ANYCLOUD_API_TOKEN"), os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %s\n", reason(err), status.Convert(err).Message())
		os.Exit(1)
	}
}

func run(api, token string, arguments []string) error {
	connection, err := dial(api)
	if err != nil {
		return err
	}
	defer connection.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token, "anycloud-client-version", version)
	deployments := deploymentv1.NewDeploymentsClient(connection)
	if len(arguments) > 0 {
		found, err := deployments.GetDeployment(ctx, &deploymentv1.GetDeploymentRequest{Id: arguments[0]})
		if err != nil {
			return err
		}
		fmt.Println(found.Id, found.Name)
		return nil
	}
	listed, err := deployments.ListDeployments(ctx, &deploymentv1.ListDeploymentsRequest{})
	if err != nil {
		return err
	}
	for _, deployment := range listed.Deployments {
		fmt.Println(deployment.Id, deployment.Name)
	}
	return nil
}

// dial connects to the URL that HTTP clients use too: one port serves both.
func dial(api string) (*grpc.ClientConn, error) {
	parsed, err := url.Parse(api)
	if err != nil {
		return nil, err
	}
	security := insecure.NewCredentials()
	if parsed.Scheme == "https" {
		security = credentials.NewTLS(&tls.Config{})
	}
	return grpc.NewClient(parsed.Host, grpc.WithTransportCredentials(security))
}

// reason is the contract's code of an error, or that of gRPC for what the API didn't answer.
func reason(err error) string {
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok {
			return info.Reason
		}
	}
	return status.Code(err).String()
}
