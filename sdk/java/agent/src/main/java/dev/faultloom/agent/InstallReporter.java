package dev.faultloom.agent;

import dev.faultloom.entry.StatusFile;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import net.bytebuddy.agent.builder.AgentBuilder;
import net.bytebuddy.utility.JavaModule;

/** Reports hooked libraries in the status file, and refused ones there and on standard error, once each. */
final class InstallReporter extends AgentBuilder.Listener.Adapter {
    private final StatusFile status;
    private final Set<String> reported = ConcurrentHashMap.newKeySet();
    private final Map<String, Library> types = new ConcurrentHashMap<>();

    InstallReporter(StatusFile status) {
        this.status = status;
    }

    void hooked(String type, Library library, String version) {
        types.put(type, library);
        status.hooked(library.name, version);
    }

    void refused(Library library, String version, String reason) {
        status.refused(library.name, version, reason);
        if (reported.add(library.name + version)) {
            System.err.println("faultloom: " + library.name + (version.isEmpty() ? "" : " " + version)
                    + " is not supported (" + reason + "): its calls are not traced");
        }
    }

    @Override
    public void onError(String type, ClassLoader loader, JavaModule module, boolean loaded, Throwable error) {
        Library library = types.get(type);
        if (library != null) {
            refused(library, library.version(loader), type + " could not be instrumented: " + error);
        }
    }
}
