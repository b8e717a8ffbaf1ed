// Code generated from sdk/generator/go/connect.mustache; DO NOT EDIT.

package anycloud

import (
	"errors"
	"strings"
)

// Connect gives a client of the API at url. The token is the local installation's, an acapi_ token, or a workload's where
// an operation asks for that.
func Connect(url, token string) *APIClient {
	configuration := NewConfiguration()
	base := strings.TrimSuffix(strings.TrimRight(url, "/"), "/v1")
	configuration.Servers = ServerConfigurations{ {URL: base} }
	configuration.AddDefaultHeader("Authorization", "Bearer "+token)
	configuration.AddDefaultHeader("AnyCloud-Client-Version", "0.1.70")
	return NewAPIClient(configuration)
}

// ErrorOf gives the contract's error in what an operation returned, or nil if it wasn't an answer of the API.
func ErrorOf(err error) *ApiError {
	var failed *GenericOpenAPIError
	if !errors.As(err, &failed) {
		return nil
	}
	if found, ok := failed.Model().(ApiError); ok {
		return &found
	}
	return nil
}
