# The image of the manager and the workers. Any builder with BuildKit; `make image` packs the same without one.
FROM --platform=$BUILDPLATFORM golang:1.26 AS build
ARG TARGETOS TARGETARCH VERSION=dev
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH go build -trimpath -ldflags "-s -w -X main.version=$VERSION" -o /retryqueue ./cmd/retryqueue

FROM gcr.io/distroless/static:nonroot
COPY --from=build /retryqueue /retryqueue
USER 65532:65532
ENTRYPOINT ["/retryqueue"]
