// Command ask asks a maxsimd one of the bundled questions and prints the five best passages.
//
//	ask [SERVER [DEMO_FOLDER [QUESTION]]]      default: localhost:7070 demo 8
//
// README.md says how the package maxsimv1 is generated.
package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"google.golang.org/grpc"

	maxsimv1 "example.com/ask/maxsim/v1"
)

const dim = 128 // of the demo collection

// readNpy returns the elements of a little-endian .npy file (format 1.0), without its header.
func readNpy(path string) ([]byte, error) {
	file, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if len(file) < 10 || len(file) < 10+int(binary.LittleEndian.Uint16(file[8:])) {
		return nil, fmt.Errorf("%s is no .npy file", path)
	}
	return file[10+int(binary.LittleEndian.Uint16(file[8:])):], nil
}

// readQuestion returns the token vectors of one question. The vectors of all questions follow one another in a float16
// [192, 128] array, and an int32 [15] array has the number of vectors of each question.
func readQuestion(demo string, question int) (*maxsimv1.TokenMatrix, error) {
	vectors, err := readNpy(filepath.Join(demo, "query_tokens.npy"))
	if err != nil {
		return nil, err
	}
	lengths, err := readNpy(filepath.Join(demo, "query_lengths.npy"))
	if err != nil {
		return nil, err
	}
	if question < 0 || question >= len(lengths)/4 {
		return nil, fmt.Errorf("%s has no question %d", demo, question)
	}
	length := func(i int) uint32 { return binary.LittleEndian.Uint32(lengths[4*i:]) }
	first := uint32(0)
	for i := 0; i < question; i++ {
		first += length(i)
	}
	const rowBytes = 2 * dim
	return &maxsimv1.TokenMatrix{
		Dtype:     maxsimv1.DataType_DATA_TYPE_F16,
		NumTokens: length(question),
		Dim:       dim,
		Data:      vectors[first*rowBytes : (first+length(question))*rowBytes],
	}, nil
}

func ask(server, demo string, question int) error {
	tokens, err := readQuestion(demo, question)
	if err != nil {
		return err
	}
	connection, err := grpc.Dial(server, grpc.WithInsecure()) //nolint:staticcheck // also in Debian's release of gRPC
	if err != nil {
		return err
	}
	defer connection.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	everything := &maxsimv1.Candidates_WholeCollection{WholeCollection: &maxsimv1.WholeCollection{}}
	response, err := maxsimv1.NewRerankerClient(connection).Rerank(ctx, &maxsimv1.RerankRequest{
		Collection:     "demo",
		Queries:        []*maxsimv1.Query{{Tokens: tokens}},
		Candidates:     &maxsimv1.Candidates{Kind: everything},
		TopK:           5,
		ReturnPayloads: true,
	})
	if err != nil {
		return err
	}
	result := response.Results[0]
	for i, score := range result.Scores {
		var payload struct{ Title string }
		if err := json.Unmarshal([]byte(result.Payloads[i]), &payload); err != nil {
			return err
		}
		fmt.Printf("%d. %s %.4f %s\n", i+1, result.GetStringIds().Ids[i], score, payload.Title)
	}
	return nil
}

func main() {
	arguments := []string{"localhost:7070", "demo", "8"}
	copy(arguments, os.Args[1:])
	question, err := strconv.Atoi(arguments[2])
	if err == nil {
		err = ask(arguments[0], arguments[1], question)
	}
	if err != nil {
		log.Fatal(err)
	}
}
