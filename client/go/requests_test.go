package maxsim

import (
	"context"
	"math"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"example.org/maxsim/client/go/maxsimv1"
)

func TestRowsSurviveTheirMatrix(t *testing.T) {
	rows := [][]float32{{1, -0.25}, {float32(math.Inf(1)), 3e-40}}
	matrix, err := RowTokens(rows)
	if err != nil || matrix.NumTokens != 2 || matrix.Dim != 2 || len(matrix.Data) != 16 {
		t.Fatalf("%v, %v", matrix, err)
	}
	got, err := FloatRows(matrix)
	if err != nil || got[0][1] != -0.25 || got[1][0] != rows[1][0] || got[1][1] != rows[1][1] {
		t.Errorf("%v, %v", got, err)
	}
	_, err = RowTokens([][]float32{{1, 2}, {1}, {1, 2, 3}})
	if err == nil || !strings.Contains(err.Error(), "rows: [1]") {
		t.Errorf("rows of different lengths: %v", err)
	}
}

func TestShortFloatsAreConvertedExactly(t *testing.T) {
	bits := []uint16{0x0000, 0x8000, 0x0001, 0x03ff, 0x0400, 0x3c00, 0xc000, 0x7bff, 0x7c00}
	want := []float32{0, 0, 0x1p-24, 0x3ffp-24, 0x1p-14, 1, -2, 65504, float32(math.Inf(1))}
	rows, err := FloatRows(Float16Tokens(bits, 9))
	if err != nil {
		t.Fatal(err)
	}
	for i := range want {
		if rows[0][i] != want[i] {
			t.Errorf("%#04x became %v and not %v", bits[i], rows[0][i], want[i])
		}
	}
	if !math.Signbit(float64(rows[0][1])) || !math.IsNaN(float64(fromFloat16(0x7e00))) {
		t.Error("a sign or a NaN is lost")
	}
	if rows, err := FloatRows(BFloat16Tokens([]uint16{0x3f80, 0xc040}, 1)); err != nil || rows[1][0] != -3 {
		t.Errorf("%v, %v", rows, err)
	}
}

func TestAMatrixOfTheWrongSizeOrTypeIsNotRead(t *testing.T) {
	short := Float32Tokens([]float32{1, 2}, 2)
	short.Data = short.Data[:7]
	quantised := &TokenMatrix{Dtype: maxsimv1.DataType_DATA_TYPE_I8, NumTokens: 1, Dim: 1, Data: []byte{1}}
	for _, matrix := range []*TokenMatrix{short, quantised, {}, nil} {
		if rows, err := FloatRows(matrix); err == nil {
			t.Errorf("%v became %v", matrix, rows)
		}
	}
}

func TestIDsAreAllStringsOrAllIntegers(t *testing.T) {
	if strings, integers, err := splitIDs(IntIDs(-1, 1<<62)); err != nil || strings != nil || integers.Ids[1] != 1<<62 {
		t.Errorf("%v, %v, %v", strings, integers, err)
	}
	if strings, integers, err := splitIDs(nil); err != nil || strings == nil || integers != nil {
		t.Errorf("%v, %v, %v", strings, integers, err)
	}
	for want, ids := range map[string][]ID{
		`ids: [1] is the string "x"`: {IntID(1), StringID("x")},
		"ids: [1] is the integer 1":  {StringID("x"), IntID(1)},
		"ids: [0] is the zero ID":    {{}},
	} {
		if _, _, err := splitIDs(ids); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v", ids, err)
		}
	}
}

func TestEveryOptionReachesTheRequest(t *testing.T) {
	least := float32(-2)
	server := &fakeServer{answers: []func(context.Context) (any, error){
		answering(&maxsimv1.RerankResponse{Results: []*maxsimv1.QueryResult{{}, {}}})}}
	options := &RankOptions{
		TopK: 1, Offset: 2, MinScore: &least, Filter: Filter{Text: "a = 1"}, GroupBy: "book", GroupSize: 3, Payloads: true,
		PayloadFields: []string{"title"}, Alignments: true, Normalize: true,
		Priority: maxsimv1.Priority_PRIORITY_LOW, MissingPolicy: maxsimv1.MissingPolicy_MISSING_POLICY_FAIL,
		RequestID: "r", MinSequence: 4, Generation: 5, Refinement: &maxsimv1.RefinementOptions{Documents: 6},
		TokenPairs: true,
	}
	tokens := Float32Tokens([]float32{1, 2}, 2)
	queries := []Query{{Tokens: tokens, Weights: []float32{2}}, {Text: "volcano"}}
	_, err := clientOf(t, server).RerankMany(context.Background(), "passages", queries,
		[]*Candidates{StringCandidates("a"), WholeCollection()}, options)
	if err != nil {
		t.Fatal(err)
	}
	want := &maxsimv1.RerankRequest{
		Collection: "passages", TopK: 1, Offset: 2, GroupBy: "book", GroupSize: 3, ReturnPayloads: true,
		Threshold:     &maxsimv1.RerankRequest_MinScore{MinScore: -2},
		Matching:      &maxsimv1.RerankRequest_FilterText{FilterText: "a = 1"},
		PayloadFields: []string{"title"}, ReturnAlignments: true, Normalize: true,
		Priority: maxsimv1.Priority_PRIORITY_LOW, MissingPolicy: maxsimv1.MissingPolicy_MISSING_POLICY_FAIL,
		RequestId: "r", MinSequence: 4, Generation: 5, Refinement: &maxsimv1.RefinementOptions{Documents: 6},
		ReturnTokenPairs: true,
		Queries: []*maxsimv1.Query{
			{Tokens: tokens, Weights: []float32{2}, Candidates: StringCandidates("a")},
			{InWords: &maxsimv1.Query_Text{Text: "volcano"}, Candidates: WholeCollection()},
		},
	}
	if got := server.requests[0].(*maxsimv1.RerankRequest); !proto.Equal(got, want) {
		t.Errorf("sent %v\nwant %v", got, want)
	}
}

func TestArgumentsThatMakeNoRequestAreRefused(t *testing.T) {
	server := &fakeServer{answers: []func(context.Context) (any, error){answering(nil)}}
	client, ctx := clientOf(t, server), context.Background()
	_, negative := client.Search(ctx, "passages", "a", &RankOptions{TopK: -1})
	_, two := client.RerankMany(ctx, "passages", make([]Query, 3), make([]*Candidates, 2), nil)
	_, noID := client.Upsert(ctx, "notes", Document{Text: "a"})
	_, mixed := client.Get(ctx, "notes", []ID{IntID(1), StringID("a")}, nil)
	scroll := client.Scroll(ctx, "notes", &ScrollOptions{PageSize: -1})
	scroll.Next()
	for field, err := range map[string]error{
		"TopK": negative, "candidates": two, "documents": noID, "ids": mixed, "PageSize": scroll.Err(),
	} {
		if failed := errorOf(t, err); failed.Field != field || failed.Attempts != 0 {
			t.Errorf("%s: %+v", field, failed)
		}
	}
	if server.numCalls() != 0 {
		t.Errorf("%d calls were made", server.numCalls())
	}
}
