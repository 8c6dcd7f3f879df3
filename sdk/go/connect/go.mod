module faultloom.dev/go/connect

go 1.26.0

require (
	connectrpc.com/connect v1.21.1
	faultloom.dev/go v0.0.0
	google.golang.org/grpc v1.67.3
	google.golang.org/protobuf v1.36.11
)

require (
	golang.org/x/net v0.28.0 // indirect
	golang.org/x/sys v0.28.0 // indirect
	golang.org/x/text v0.17.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20240814211410-ddb44dafa142 // indirect
)

replace faultloom.dev/go => ../
