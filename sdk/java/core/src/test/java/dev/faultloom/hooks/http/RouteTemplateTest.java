package dev.faultloom.hooks.http;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

final class RouteTemplateTest {
    @Test
    void regularExpressionsOfParametersAreRemoved() {
        Map<String, String> expected = Map.of(
                "/product/{id}", "/product/{id}",
                "/order/{id:[0-9]+}/items", "/order/{id}/items",
                "/order/{id:[0-9]{2}}-{n:a|b}", "/order/{id}-{n}",
                "/order/{id:\\}+}/x", "/order/{id}/x",
                "/files/{*path}", "/files/{*path}",
                "/files/**", "/files/**",
                "/time:zone/{id}", "/time:zone/{id}",
                "/broken/{id:[", "/broken/{id",
                "/", "/",
                "", "");
        expected.forEach((pattern, template) -> assertEquals(template, RouteTemplate.ofSpring(pattern), pattern));
    }

    @Test
    void patternOfOnlyAWildcardIsACatchAll() {
        List.of("/**", "/*", "**", "/{*path}").forEach(pattern -> assertTrue(RouteTemplate.isCatchAll(pattern), pattern));
        List.of("/files/**", "/{id}", "/", "", "/a*").forEach(pattern -> assertFalse(RouteTemplate.isCatchAll(pattern), pattern));
    }
}
