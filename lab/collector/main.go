// Command collector is an OpenTelemetry Collector with only an OTLP receiver and a file exporter. See README.md.
package main

import (
	"context"
	"os"

	"github.com/open-telemetry/opentelemetry-collector-contrib/exporter/fileexporter"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/provider/envprovider"
	"go.opentelemetry.io/collector/confmap/provider/fileprovider"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/otelcol"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/service/telemetry"
	"go.uber.org/zap"
)

func factories() (otelcol.Factories, error) {
	otlp, file := otlpreceiver.NewFactory(), fileexporter.NewFactory()
	return otelcol.Factories{
		Receivers: map[component.Type]receiver.Factory{otlp.Type(): otlp},
		Exporters: map[component.Type]exporter.Factory{file.Type(): file},
		Telemetry: warningsOnly(),
	}, nil
}

// warningsOnly is the Collector's internal telemetry: warnings on standard error, no metrics and no traces.
func warningsOnly() telemetry.Factory {
	noConfig := func() component.Config { return &struct{}{} }
	return telemetry.NewFactory(noConfig, telemetry.WithCreateLogger(
		func(_ context.Context, _ telemetry.LoggerSettings, _ component.Config) (*zap.Logger, component.ShutdownFunc, error) {
			config := zap.NewProductionConfig()
			config.Level = zap.NewAtomicLevelAt(zap.WarnLevel)
			logger, err := config.Build()
			return logger, nil, err
		}))
}

func main() {
	command := otelcol.NewCommand(otelcol.CollectorSettings{
		BuildInfo: component.BuildInfo{Command: "collector", Description: "OpenTelemetry Collector: OTLP to a file"},
		Factories: factories,
		ConfigProviderSettings: otelcol.ConfigProviderSettings{ResolverSettings: confmap.ResolverSettings{
			ProviderFactories: []confmap.ProviderFactory{fileprovider.NewFactory(), envprovider.NewFactory()},
			DefaultScheme:     "env",
		}},
	})
	if command.Execute() != nil {
		os.Exit(1) // Execute has printed the error
	}
}
