#include "server/grpc/service_descriptors.h"

#include <set>
#include <utility>

#include "google/protobuf/descriptor.pb.h"
#include "grpcpp/support/status.h"

namespace maxsim::rpc {
namespace {

namespace pb = google::protobuf;
using grpc::reflection::v1::FileDescriptorResponse;
using grpc::reflection::v1::ServerReflectionRequest;
using grpc::reflection::v1::ServerReflectionResponse;

// Appends `file` and the files that it imports, each once.
void AppendWithImports(const pb::FileDescriptor& file, std::set<const pb::FileDescriptor*>& seen,
                       FileDescriptorResponse& answer) {
  if (!seen.insert(&file).second) return;
  pb::FileDescriptorProto proto;
  file.CopyTo(&proto);
  answer.add_file_descriptor_proto(proto.SerializeAsString());
  for (int i = 0; i < file.dependency_count(); ++i) AppendWithImports(*file.dependency(i), seen, answer);
}

void SetError(grpc::StatusCode code, const std::string& message, ServerReflectionResponse& response) {
  response.mutable_error_response()->set_error_code(code);
  response.mutable_error_response()->set_error_message(message);
}

}  // namespace

ServiceDescriptors::ServiceDescriptors(std::vector<std::string> services) : services_(std::move(services)) {
  for (const std::string& name : services_) {
    const pb::ServiceDescriptor* const service = pb::DescriptorPool::generated_pool()->FindServiceByName(name);
    if (service != nullptr) AddFile(service->file());
  }
}

void ServiceDescriptors::AddFile(File file) {
  if (!files_.emplace(file->name(), file).second) return;
  std::set<File> seen;
  AppendWithImports(*file, seen, answers_[file]);
  for (int i = 0; i < file->message_type_count(); ++i) AddMessage(*file->message_type(i));
  for (int i = 0; i < file->enum_type_count(); ++i) AddEnum(*file->enum_type(i));
  for (int i = 0; i < file->extension_count(); ++i) AddField(*file->extension(i));
  for (int i = 0; i < file->service_count(); ++i) {
    const pb::ServiceDescriptor& service = *file->service(i);
    symbols_.emplace(service.full_name(), file);
    for (int j = 0; j < service.method_count(); ++j) symbols_.emplace(service.method(j)->full_name(), file);
  }
  for (int i = 0; i < file->dependency_count(); ++i) AddFile(file->dependency(i));
}

void ServiceDescriptors::AddMessage(const pb::Descriptor& message) {
  symbols_.emplace(message.full_name(), message.file());
  for (int i = 0; i < message.field_count(); ++i) AddField(*message.field(i));
  for (int i = 0; i < message.extension_count(); ++i) AddField(*message.extension(i));
  for (int i = 0; i < message.oneof_decl_count(); ++i) {
    symbols_.emplace(message.oneof_decl(i)->full_name(), message.file());
  }
  for (int i = 0; i < message.enum_type_count(); ++i) AddEnum(*message.enum_type(i));
  for (int i = 0; i < message.nested_type_count(); ++i) AddMessage(*message.nested_type(i));
}

void ServiceDescriptors::AddEnum(const pb::EnumDescriptor& enumeration) {
  symbols_.emplace(enumeration.full_name(), enumeration.file());
  for (int i = 0; i < enumeration.value_count(); ++i) {
    symbols_.emplace(enumeration.value(i)->full_name(), enumeration.file());
  }
}

void ServiceDescriptors::AddField(const pb::FieldDescriptor& field) {
  symbols_.emplace(field.full_name(), field.file());
  if (field.is_extension()) extensions_[field.containing_type()->full_name()].emplace(field.number(), field.file());
}

ServiceDescriptors::File ServiceDescriptors::FindFile(const std::string& name) const {
  const auto it = files_.find(name);
  return it == files_.end() ? nullptr : it->second;
}

ServiceDescriptors::File ServiceDescriptors::FindSymbol(const std::string& name) const {
  const auto it = symbols_.find(name);
  return it == symbols_.end() ? nullptr : it->second;
}

ServiceDescriptors::File ServiceDescriptors::FindExtension(const std::string& type, int32_t number) const {
  const auto of_type = extensions_.find(type);
  if (of_type == extensions_.end()) return nullptr;
  const auto it = of_type->second.find(number);
  return it == of_type->second.end() ? nullptr : it->second;
}

ServerReflectionResponse ServiceDescriptors::Answer(const ServerReflectionRequest& request) const {
  ServerReflectionResponse response;
  response.set_valid_host(request.host());
  *response.mutable_original_request() = request;
  const auto answer_file = [&](File file) {
    if (file == nullptr) return SetError(grpc::StatusCode::NOT_FOUND, "no file of these services has it", response);
    *response.mutable_file_descriptor_response() = answers_.at(file);
  };
  switch (request.message_request_case()) {
    case ServerReflectionRequest::kFileByFilename:
      answer_file(FindFile(request.file_by_filename()));
      break;
    case ServerReflectionRequest::kFileContainingSymbol:
      answer_file(FindSymbol(request.file_containing_symbol()));
      break;
    case ServerReflectionRequest::kFileContainingExtension:
      answer_file(FindExtension(request.file_containing_extension().containing_type(),
                                request.file_containing_extension().extension_number()));
      break;
    case ServerReflectionRequest::kAllExtensionNumbersOfType: {
      const std::string& type = request.all_extension_numbers_of_type();
      if (FindSymbol(type) == nullptr) {
        SetError(grpc::StatusCode::NOT_FOUND, "no file of these services has it", response);
        break;
      }
      auto& numbers = *response.mutable_all_extension_numbers_response();
      numbers.set_base_type_name(type);
      if (const auto it = extensions_.find(type); it != extensions_.end()) {
        for (const auto& [number, file] : it->second) numbers.add_extension_number(number);
      }
      break;
    }
    case ServerReflectionRequest::kListServices:
      for (const std::string& name : services_) {
        response.mutable_list_services_response()->add_service()->set_name(name);
      }
      break;
    case ServerReflectionRequest::MESSAGE_REQUEST_NOT_SET:
      SetError(grpc::StatusCode::INVALID_ARGUMENT, "message_request: nothing is asked for", response);
      break;
  }
  return response;
}

}  // namespace maxsim::rpc
