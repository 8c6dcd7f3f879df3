package dev.faultloom.hooks.http;

/**
 * Route templates of frameworks in the form that histories have: <code>{name}</code> for a parameter, without its
 * regular expression; <code>{*name}</code>, <code>*</code> or <code>**</code> for a wildcard.
 */
public final class RouteTemplate {
    private RouteTemplate() {}

    /** Converts a pattern of Spring: <code>/order/{id:[0-9]{2}}</code> becomes <code>/order/{id}</code>. */
    public static String ofSpring(String pattern) {
        StringBuilder out = new StringBuilder(pattern.length());
        int depth = 0;
        boolean inExpression = false;
        for (int at = 0; at < pattern.length(); at++) {
            char c = pattern.charAt(at);
            if (c == '\\' && inExpression) {
                at++; // an escaped brace of the expression
                continue;
            }
            if (c == '}' && --depth == 0) {
                inExpression = false;
            }
            if (c == ':' && depth == 1) {
                inExpression = true;
            }
            if (!inExpression) {
                out.append(c);
            }
            if (c == '{') {
                depth++;
            }
        }
        return out.toString();
    }

    /** Whether a pattern is nothing but a wildcard, such as <code>/**</code>. It says nothing about the path. */
    public static boolean isCatchAll(String pattern) {
        return pattern.matches("/?(\\*|\\*\\*|\\{\\*[^}]*\\})");
    }
}
