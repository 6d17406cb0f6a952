// Command ask asks a maxsimd one of the bundled questions and prints the five best passages.
//
//	ask [SERVER [DEMO_FOLDER [QUESTION]]]      default: localhost:7070 demo 8
package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strconv"

	maxsim "example.org/maxsim/client/go"
)

const dim = 128 // of the demo collection

// readNpy returns the elements of a little-endian .npy file (format 1.0), without its header.
func readNpy[T uint16 | int32](path string) ([]T, error) {
	file, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if len(file) < 10 || len(file) < 10+int(binary.LittleEndian.Uint16(file[8:])) {
		return nil, fmt.Errorf("%s is no .npy file", path)
	}
	data := file[10+int(binary.LittleEndian.Uint16(file[8:])):]
	elements := make([]T, len(data)/binary.Size(T(0)))
	return elements, binary.Read(bytes.NewReader(data), binary.LittleEndian, elements)
}

// readQuestion returns the token vectors of one question. The vectors of all questions follow one another in a float16
// [192, 128] array, and an int32 [15] array has the number of vectors of each question.
func readQuestion(demo string, question int) (*maxsim.TokenMatrix, error) {
	vectors, err := readNpy[uint16](filepath.Join(demo, "query_tokens.npy"))
	if err != nil {
		return nil, err
	}
	lengths, err := readNpy[int32](filepath.Join(demo, "query_lengths.npy"))
	if err != nil {
		return nil, err
	}
	if question < 0 || question >= len(lengths) {
		return nil, fmt.Errorf("%s has no question %d", demo, question)
	}
	first := int32(0)
	for _, length := range lengths[:question] {
		first += length
	}
	return maxsim.Float16Tokens(vectors[first*dim:(first+lengths[question])*dim], dim), nil
}

func ask(server, demo string, question int) error {
	tokens, err := readQuestion(demo, question)
	if err != nil {
		return err
	}
	client, err := maxsim.New(maxsim.Options{Target: server})
	if err != nil {
		return err
	}
	defer client.Close()
	ranking, err := client.Rerank(context.Background(), "demo", maxsim.Query{Tokens: tokens}, maxsim.WholeCollection(),
		&maxsim.RankOptions{TopK: 5, Payloads: true})
	if err != nil {
		return err
	}
	for i, document := range ranking.Documents {
		var payload struct{ Title string }
		if err := json.Unmarshal(document.Payload, &payload); err != nil {
			return err
		}
		fmt.Printf("%d. %s %.4f %s\n", i+1, document.ID, document.Score, payload.Title)
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
