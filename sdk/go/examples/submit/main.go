// Submits a Job to a Deployment and waits until it has ended.
//
//	ANYCLOUD_API_URL=… ANYCLOUD_API_TOKEN=… submit [-url URL] [-token TOKEN] DEPLOYMENT
//
// DEPLOYMENT is a name or an id. Ends with 0 when the Job completed, with 1 when it ended otherwise or was refused.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"time"

	"anycloud.sh/sdk-go/anycloud"
)

var ended = []string{"completed", "failed", "errored", "invalid", "terminated"}

func main() {
	url := flag.String("url", os.Getenv("ANYCLOUD_API_URL"), "the API's URL")
	token := flag.String("token", os.Getenv("ANYCLOUD_API_TOKEN"), "the API's token")
	flag.Parse()
	if flag.NArg() != 1 || *url == "" || *token == "" {
		fmt.Fprintln(os.Stderr, "usage: submit DEPLOYMENT; set ANYCLOUD_API_URL and ANYCLOUD_API_TOKEN, or give -url and -token")
		os.Exit(2)
	}
	state, err := submit(context.Background(), anycloud.Connect(*url, *token), flag.Arg(0))
	if failure := anycloud.ErrorOf(err); failure != nil {
		fmt.Fprintf(os.Stderr, "%s: %s\n", failure.Code, failure.Message)
	} else if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	if state != "completed" {
		os.Exit(1)
	}
}

// submit gives the state that the Job ended in.
func submit(ctx context.Context, client *anycloud.APIClient, deployment string) (string, error) {
	target := anycloud.NewSubmitWorkloadRequestDeploymentTarget(deployment)
	body := anycloud.SubmitWorkloadRequestDeploymentTargetAsSubmitWorkloadRequest(target)
	admitted, _, err := client.WorkloadsAPI.SubmitWorkload(ctx).SubmitWorkloadRequest(body).Execute()
	if err != nil {
		return "", err
	}
	fmt.Println(admitted.Id, "submitted")
	state := ""
	for !slices.Contains(ended, state) {
		time.Sleep(500 * time.Millisecond)
		status, _, err := client.WorkloadsAPI.GetWorkloadStatus(ctx, admitted.Id).Execute()
		if err != nil {
			return state, err
		}
		if status.Workload.State != state {
			state = status.Workload.State
			fmt.Println(admitted.Id, state)
		}
	}
	return state, nil
}
