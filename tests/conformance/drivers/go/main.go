// Command go_client runs the calls of the conformance suite with the Go client (docs/internals/conformance.md).
//
//	go_client SERVER=GRPC_ADDRESS,HTTP_URL...
//
// It reads one call per line of the standard input, and writes one answer per line.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"log"
	"os"
	"strings"
	"time"

	maxsim "example.org/maxsim/client/go"
)

type object = map[string]any

// line is one call.
type line struct {
	Client    json.RawMessage
	Method    string
	Arguments arguments
}

type clientOptions struct {
	Server      string
	MaxAttempts int    `json:"max_attempts"`
	BackoffMs   int    `json:"backoff_ms"`
	TimeoutMs   int    `json:"timeout_ms"`
	Token       string `json:"token"`
	CAFile      string `json:"ca_file"`
	TLS         bool   `json:"tls"`
}

// driver makes one client for each set of options.
type driver struct {
	addresses map[string]string // gRPC's, by the server's name
	clients   map[string]*maxsim.Client
}

func (d *driver) client(given json.RawMessage) (*maxsim.Client, error) {
	if client := d.clients[string(given)]; client != nil {
		return client, nil
	}
	var parsed clientOptions
	if err := json.Unmarshal(given, &parsed); err != nil {
		log.Fatal(err)
	}
	options := maxsim.Options{
		Target:  d.addresses[parsed.Server],
		Timeout: time.Duration(parsed.TimeoutMs) * time.Millisecond,
		Token:   parsed.Token,
		Retry: maxsim.RetryOptions{
			MaxAttempts:    parsed.MaxAttempts,
			InitialBackoff: time.Duration(parsed.BackoffMs) * time.Millisecond,
			Jitter:         -1,
		},
		AllowPlaintextToken: true,
	}
	if parsed.CAFile != "" || parsed.TLS {
		options.TLS = &maxsim.TLSOptions{CAFile: parsed.CAFile}
	}
	client, err := maxsim.New(options)
	if err == nil {
		d.clients[string(given)] = client
	}
	return client, err
}

func (d *driver) answer(call line) object {
	client, err := d.client(call.Client)
	if err != nil {
		return object{"error": errorObject(err)}
	}
	method := methods[call.Method]
	if method == nil {
		return object{"unsupported": call.Method}
	}
	result, err := method(context.Background(), client, &call.Arguments)
	if err != nil {
		return object{"error": errorObject(err)}
	}
	return object{"result": result}
}

func main() {
	addresses := map[string]string{}
	for _, argument := range os.Args[1:] {
		name, both, _ := strings.Cut(argument, "=")
		addresses[name], _, _ = strings.Cut(both, ",")
	}
	driver := driver{addresses, map[string]*maxsim.Client{}}
	input := bufio.NewReader(os.Stdin)
	output := json.NewEncoder(os.Stdout)
	for {
		text, err := input.ReadBytes('\n')
		if err == io.EOF && len(text) == 0 {
			return
		}
		var call line
		if err := json.Unmarshal(text, &call); err != nil {
			log.Fatalf("%v: %s", err, text)
		}
		if err := output.Encode(driver.answer(call)); err != nil {
			log.Fatal(err)
		}
	}
}
