module example.org/maxsim/client/go

go 1.19

require (
	google.golang.org/genproto/googleapis/rpc v0.0.0-20240123012728-ef4313101c80
	google.golang.org/grpc v1.62.2
	google.golang.org/protobuf v1.33.0
)
