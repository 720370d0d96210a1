<?php

declare(strict_types=1);

/** A connection to the database of a URL, as the programs here need it. */
function connect(string $url): PDO
{
    $place = parse_url($url);
    // To PDO "localhost" is the socket, whatever the port.
    $host = $place['host'] === 'localhost' ? '127.0.0.1' : $place['host'];
    $dsn = sprintf(
        'mysql:host=%s;port=%d;dbname=%s;charset=utf8mb4',
        $host,
        $place['port'] ?? 3306,
        ltrim($place['path'], '/'),
    );
    [$user, $password] = [rawurldecode($place['user']), rawurldecode($place['pass'] ?? '')];
    return new PDO($dsn, $user, $password, [
        PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION,
        PDO::ATTR_EMULATE_PREPARES => false,
    ]);
}
