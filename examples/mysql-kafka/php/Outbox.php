<?php

declare(strict_types=1);

/**
 * Enqueues messages in the transaction that a PDO connection has open. Copy it into your project.
 *
 * The connection throws its errors (PDO::ERRMODE_EXCEPTION, the default since PHP 8) and has `charset=utf8mb4`. Do not
 * let it emulate prepared statements (PDO::ATTR_EMULATE_PREPARES => false): then payloads may be any bytes.
 */
final class Outbox
{
    public function __construct(private readonly PDO $pdo)
    {
    }

    /**
     * Writes a message and returns its id, the same on every delivery.
     *
     * @param string $topic words of letters, digits and _-:/ joined by single dots
     * @param ?string $key messages of one key keep their order; null asks for none
     * @param string $payload bytes
     * @param array<string, string> $headers
     * @param ?string $id a UUID of your own, if you like
     *
     * @throws LogicException outside of a transaction
     * @throws PDOException SQLSTATE 45000 for a message that breaks the rules: nothing was written
     */
    public function enqueue(
        string $topic,
        ?string $key,
        string $payload,
        array $headers = [],
        string $contentType = 'application/json',
        ?string $id = null,
    ): string {
        if (!$this->pdo->inTransaction()) {
            throw new LogicException('begin a transaction first: a message belongs to the data that it tells about');
        }
        $this->pdo->prepare('set @postrider_message_id = ?')->execute([$id]);
        $call = $this->pdo->prepare(
            'call postrider_enqueue(?, ?, ?, ?, ?, null, null, null, @postrider_message_id)'
        );
        $call->bindValue(1, $topic);
        $call->bindValue(2, $key);
        $call->bindValue(3, $payload, PDO::PARAM_LOB);
        // An empty array would become the JSON list [].
        $call->bindValue(4, $headers === [] ? null : json_encode($headers, JSON_THROW_ON_ERROR));
        $call->bindValue(5, $contentType);
        $call->execute();
        $call->closeCursor();

        return $this->pdo->query('select @postrider_message_id')->fetchColumn();
    }
}
