#include "server/service/call/message_descriptors.h"

#include "maxsim/v1/admin.pb.h"
#include "maxsim/v1/documents.pb.h"
#include "maxsim/v1/rerank.pb.h"

namespace maxsim::service {

// Getting the descriptor of one message builds the descriptors of its whole file.
void BuildMessageDescriptors() {
  v1::LoadCollectionRequest::descriptor();
  v1::UpsertRequest::descriptor();
  v1::RerankRequest::descriptor();
}

}  // namespace maxsim::service
