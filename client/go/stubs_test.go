package maxsim

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"example.org/maxsim/client/go/maxsimv1"
)

// TestTheStubsAreThoseOfTheProtos compares the declarations in maxsimv1 with proto/, and not the text of the files, so
// that any version of protoc may be installed. tests/go/test.sh sets MAXSIM_PROTO.
func TestTheStubsAreThoseOfTheProtos(t *testing.T) {
	folder := os.Getenv("MAXSIM_PROTO")
	if folder == "" {
		t.Skip("MAXSIM_PROTO does not name the folder of the protos")
	}
	output := filepath.Join(t.TempDir(), "set")
	files := map[string]protoreflect.FileDescriptor{
		"maxsim/v1/rerank.proto":    maxsimv1.File_maxsim_v1_rerank_proto,
		"maxsim/v1/admin.proto":     maxsimv1.File_maxsim_v1_admin_proto,
		"maxsim/v1/documents.proto": maxsimv1.File_maxsim_v1_documents_proto,
	}
	arguments := []string{"-I", folder, "--descriptor_set_out", output}
	for file := range files {
		arguments = append(arguments, file)
	}
	if printed, err := exec.Command("protoc", arguments...).CombinedOutput(); err != nil {
		t.Fatalf("protoc: %v\n%s", err, printed)
	}
	bytes, err := os.ReadFile(output)
	if err != nil {
		t.Fatal(err)
	}
	var set descriptorpb.FileDescriptorSet
	if err := proto.Unmarshal(bytes, &set); err != nil {
		t.Fatal(err)
	}
	if len(set.File) != len(files) {
		t.Fatalf("protoc described %d files and not %d", len(set.File), len(files))
	}
	for _, want := range set.File {
		got := protodesc.ToFileDescriptorProto(files[want.GetName()])
		// protodesc leaves out the names for JSON that follow from the names of the fields.
		for _, message := range want.MessageType {
			clearJSONNames(message)
		}
		for _, message := range got.MessageType {
			clearJSONNames(message)
		}
		if !proto.Equal(got, want) {
			t.Errorf("%s has changed: run client/go/generate.sh", want.GetName())
		}
	}
}

func clearJSONNames(message *descriptorpb.DescriptorProto) {
	for _, field := range message.Field {
		field.JsonName = nil
	}
	for _, nested := range message.NestedType {
		clearJSONNames(nested)
	}
}
