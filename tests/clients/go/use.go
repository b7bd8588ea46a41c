// Uses the Go client that openapi-generator makes. Arguments: the service's address, a key, a PNG.
package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"sort"

	"use/storymem"
)

func main() {
	if err := use(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func use(base, key, path string) error {
	image, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	configuration := storymem.NewConfiguration()
	configuration.Servers = storymem.ServerConfigurations{{URL: base}}
	client := storymem.NewAPIClient(configuration)
	ctx := context.WithValue(context.Background(), storymem.ContextAccessToken, key)

	// By JSON.
	data := storymem.NewImageData("data:image/png;base64," + base64.StdEncoding.EncodeToString(image))
	memory := []storymem.ImageRef{storymem.ImageDataAsImageRef(data)}
	request := storymem.NewCreateJob("A lighthouse at dusk")
	request.SetMemory(memory)
	request.SetSize("64x64")
	request.SetSteps(2)
	request.SetSeed(7)
	job, _, err := client.JobsAPI.CreateJob(ctx).CreateJob(*request).Execute()
	if err != nil {
		return err
	}
	for job.Status != storymem.JOBSTATUS_SUCCEEDED {
		if job.Status == storymem.JOBSTATUS_FAILED || job.Status == storymem.JOBSTATUS_CANCELLED {
			return fmt.Errorf("the job ended as %s", job.Status)
		}
		if job, _, err = client.JobsAPI.GetJob(ctx, job.Id).Wait(30).Execute(); err != nil {
			return err
		}
	}
	file, _, err := client.JobsAPI.GetVideo(ctx, job.Id).Execute()
	if err != nil {
		return err
	}
	video, err := io.ReadAll(file)
	if err != nil {
		return err
	}
	if string(video[4:8]) != "ftyp" {
		return fmt.Errorf("no MP4 but %q", video[:16])
	}

	// Cancel, and the code of an error.
	request.SetSize("320x192")
	request.SetSteps(100)
	long, _, err := client.JobsAPI.CreateJob(ctx).CreateJob(*request).Execute()
	if err != nil {
		return err
	}
	if _, _, err = client.JobsAPI.CancelJob(ctx, long.Id).Execute(); err != nil {
		return err
	}
	request.SetPrompt("")
	request.SetSteps(0)
	_, _, err = client.JobsAPI.CreateJob(ctx).CreateJob(*request).Execute()
	var refused *storymem.GenericOpenAPIError
	if !errors.As(err, &refused) {
		return fmt.Errorf("a wrong request was answered with %v", err)
	}
	problem, ok := refused.Model().(storymem.Problem)
	if !ok || problem.Code != storymem.ERRORCODE_VALIDATION_FAILED {
		return fmt.Errorf("no problem but %v", refused.Model())
	}
	var pointers []string
	for _, wrong := range problem.Errors {
		pointers = append(pointers, wrong.Pointer)
	}
	sort.Strings(pointers)
	if fmt.Sprint(pointers) != "[/prompt /steps]" {
		return fmt.Errorf("what is wrong is at %v", pointers)
	}
	return nil
}
