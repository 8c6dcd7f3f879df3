package grpchook

import (
	"context"
	"reflect"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"faultloom.dev/go/message/scope"
	"faultloom.dev/go/message/wire"
)

func streamServer(process func() *scope.Process) grpc.StreamServerInterceptor {
	return func(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		ctx := ss.Context()
		p, md := process(), incomingMetadata(ctx)
		candidate, sampled := mayHaveScope(p, md, false)
		if !candidate {
			scope.EnterUntraced()
			return handler(srv, ss)
		}
		s := new(scope.Scope)
		if !openScope(ctx, p, s, md, "", false, sampled) {
			scope.EnterUntraced()
			return handler(srv, ss)
		}
		defer s.Leave(s.Enter())
		stream := &serverStream{ServerStream: ss, scoped: scope.Context{Context: ctx, Scope: s}, pieces: scope.PieceWriter{Scope: s}}
		env := s.Envelope()
		if s.ReturnsHistory() && env.Accept&wire.AcceptField != 0 && env.ReceiveLimit > 0 && isStandardStream(ss) {
			if server, ok := serverWithOurCodec(ctx); ok {
				stream.limit = min(readServerLimits(server).send, int(min(env.ReceiveLimit, 1<<31-1)))
			}
		}
		err := handler(srv, stream)
		status := uint64(statusCode(err))
		if !s.ReturnsHistory() {
			s.Finish(s.Now(), status, info.FullMethod)
			return err
		}
		if piece := stream.pieces.LastPiece(s.Now(), status, "", wire.MaxTrailerBytes); piece != nil {
			ss.SetTrailer(metadata.MD{wire.GRPCKey: {string(piece)}})
		}
		return err
	}
}

// serverStream is a stream whose handler runs within a scope.
type serverStream struct {
	grpc.ServerStream
	scoped scope.Context
	pieces scope.PieceWriter
	limit  int // bytes of a message with its field; 0: the trailer carries the whole history
}

func (s *serverStream) Context() context.Context { return &s.scoped }

func (s *serverStream) SendMsg(m any) error {
	if message, ok := m.(proto.Message); ok && s.limit > 0 && s.pieces.HasNext() {
		return s.ServerStream.SendMsg(&serverMessage{message, s})
	}
	return s.ServerStream.SendMsg(m)
}

// serverMessage is a message of a stream that carries a piece of the history if there is room. It embeds the message
// for the same reason as serverReply.
type serverMessage struct {
	proto.Message
	stream *serverStream
}

// isStandardStream reports whether a stream is grpc-go's own. Otherwise an interceptor set by grpc.StreamInterceptor,
// which runs outside of all chained ones, has wrapped it and may assert the messages' type.
func isStandardStream(ss grpc.ServerStream) bool {
	t := reflect.TypeOf(ss)
	return t.Kind() == reflect.Pointer && t.Elem().PkgPath() == "google.golang.org/grpc"
}
