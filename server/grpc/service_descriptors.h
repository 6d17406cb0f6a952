// Answers reflection requests from an index: the names of the services, and the descriptors of the files that define
// them.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "google/protobuf/descriptor.h"
#include "grpc/reflection/v1/reflection.pb.h"

namespace maxsim::rpc {

// The index is built once and read without a lock. Requests never reach protobuf's own pool of descriptors: the pool
// remembers every name that it did not find, so a client could fill the memory with made-up names. Immutable and
// thread-safe.
class ServiceDescriptors {
 public:
  // `services` are full names ("maxsim.v1.Reranker"). Clients can request the files that define these services, and all
  // files that those import, but no other files. A service without generated code in this program is only listed.
  explicit ServiceDescriptors(std::vector<std::string> services);

  // Returns an answer of limited size: a file with all that it imports, a list of names, or an error_response
  // (NOT_FOUND for an unknown name, INVALID_ARGUMENT for a request that asks for nothing).
  grpc::reflection::v1::ServerReflectionResponse Answer(
      const grpc::reflection::v1::ServerReflectionRequest& request) const;

 private:
  using File = const google::protobuf::FileDescriptor*;

  void AddFile(File file);
  void AddMessage(const google::protobuf::Descriptor& message);
  void AddEnum(const google::protobuf::EnumDescriptor& enumeration);
  void AddField(const google::protobuf::FieldDescriptor& field);

  // These return null if the index does not have the name.
  File FindFile(const std::string& name) const;
  File FindSymbol(const std::string& name) const;
  File FindExtension(const std::string& type, int32_t number) const;

  std::vector<std::string> services_;
  absl::flat_hash_map<std::string, File> files_;
  absl::flat_hash_map<std::string, File> symbols_;                                   // by full name
  absl::flat_hash_map<std::string, std::map<int32_t, File>> extensions_;             // by extended message and number
  absl::flat_hash_map<File, grpc::reflection::v1::FileDescriptorResponse> answers_;  // a file and all that it imports
};

}  // namespace maxsim::rpc
