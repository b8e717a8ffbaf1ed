// Makes one call with the SDK and prints what it saw as JSON: `probe NAME URL TOKEN [ARGUMENT]`.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strconv"

	"anycloud.sh/sdk-go/anycloud"
)

type object map[string]any

func main() {
	argument := ""
	if len(os.Args) > 4 {
		argument = os.Args[4]
	}
	client := anycloud.Connect(os.Args[2], os.Args[3])
	seen, response, err := probe(context.Background(), client, os.Args[1], argument)
	if err != nil {
		seen = object{"error": told(err, response)}
	}
	printed, err := json.Marshal(seen)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(printed))
}

func probe(ctx context.Context, client *anycloud.APIClient, name, argument string) (any, *http.Response, error) {
	switch name {
	case "deployment":
		answer, response, err := client.DeploymentsAPI.GetDeployment(ctx, argument).Execute()
		if err != nil {
			return nil, response, err
		}
		found := answer.Deployment
		var state any
		if status := found.Status.Get(); status != nil {
			state = status.State
		}
		return object{"name": found.Name, "image": found.Image, "command": found.Command, "state": state}, nil, nil
	case "credential":
		found, response, err := client.CredentialsAPI.GetCredential(ctx, argument).Execute()
		if err != nil {
			return nil, response, err
		}
		aws := found.RedactedCredentialAws
		return object{"kind": "RedactedCredentialAws", "cloudProvider": aws.CloudProvider}, nil, nil
	case "update":
		options := anycloud.DockerOptionsUpdate{}
		options.SetShmSizeNil()
		update := anycloud.DeploymentUpdate{DockerOptions: *anycloud.NewNullableDockerOptionsUpdate(&options)}
		update.AdditionalProperties = object{"command": nil}
		_, response, err := client.DeploymentsAPI.UpdateDeployment(ctx, argument).DeploymentUpdate(update).Execute()
		return "done", response, err
	case "submit-deployment":
		target := anycloud.NewSubmitWorkloadRequestDeploymentTarget(argument)
		return submit(ctx, client, anycloud.SubmitWorkloadRequestDeploymentTargetAsSubmitWorkloadRequest(target))
	case "submit-image":
		target := anycloud.NewSubmitWorkloadRequestImageTarget(argument, anycloud.SubmitWorkloadRequestCloudConfig{})
		target.SetNodePool("pool")
		target.SetGpuType(anycloud.ArrayOfStringAsStringOrList(&[]string{"t4", "l4"}))
		return submit(ctx, client, anycloud.SubmitWorkloadRequestImageTargetAsSubmitWorkloadRequest(target))
	case "ingress":
		answer, response, err := client.NodePoolsAPI.GetNodePool(ctx, argument).Execute()
		if err != nil {
			return nil, response, err
		}
		if release := answer.NodePool.Ingress.Release.Get(); release != nil && release.HelmJob.Get() != nil {
			return release.HelmJob.Get().Phase, nil, nil
		}
		return nil, nil, nil
	case "workloads":
		listed, response, err := client.WorkloadsAPI.ListWorkloads(ctx).Execute()
		kinds := []any{}
		for _, workload := range listed {
			kinds = append(kinds, workload.VmType.Get().GetActualInstance())
		}
		return kinds, response, err
	case "logs":
		return client.DeploymentsAPI.StreamLogs(ctx, argument).Execute()
	case "pages":
		return pages(ctx, client)
	}
	panic("no such probe: " + name)
}

func submit(ctx context.Context, client *anycloud.APIClient, body anycloud.SubmitWorkloadRequest) (any, *http.Response, error) {
	admitted, response, err := client.WorkloadsAPI.SubmitWorkload(ctx).SubmitWorkloadRequest(body).Execute()
	if err != nil {
		return nil, response, err
	}
	seen := object{"id": admitted.Id}
	if body.SubmitWorkloadRequestDeploymentTarget != nil {
		seen["claimDeadlineAt"] = admitted.ClaimDeadlineAt.Get()
	}
	return seen, nil, nil
}

func pages(ctx context.Context, client *anycloud.APIClient) (any, *http.Response, error) {
	first, response, err := client.DeploymentsAPI.ListDeployments(ctx).Limit(1).Execute()
	if err != nil {
		return nil, response, err
	}
	quoted := regexp.MustCompile("cursor=([^&>]+)").FindStringSubmatch(response.Header.Get("Link"))[1]
	cursor, err := url.QueryUnescape(quoted)
	if err != nil {
		return nil, response, err
	}
	second, response2, err := client.DeploymentsAPI.ListDeployments(ctx).Limit(1).Cursor(cursor).Execute()
	if err != nil {
		return nil, response2, err
	}
	total, err := strconv.Atoi(response.Header.Get("AnyCloud-Total-Count"))
	names := []string{}
	for _, deployment := range append(first.Deployments, second.Deployments...) {
		names = append(names, deployment.Name)
	}
	return object{"names": names, "total": total}, response, err
}

// told has a null code where the answer wasn't the API's.
func told(err error, response *http.Response) object {
	found := anycloud.ErrorOf(err)
	if found == nil {
		return object{"status": response.StatusCode, "code": nil}
	}
	return object{"status": response.StatusCode, "code": found.Code, "defined": found.Defined, "data": found.Data}
}
