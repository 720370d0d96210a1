<?php

declare(strict_types=1);

/**
 * Tells a message from its repeats, in the transaction that a PDO connection has open. Copy it into your project.
 *
 * The connection throws its errors (PDO::ERRMODE_EXCEPTION, the default since PHP 8).
 */
final class Inbox
{
    public function __construct(private readonly PDO $pdo)
    {
    }

    /**
     * Records that the consumer handles this message; false when it did before.
     *
     * Write the effect in the same transaction where it answers true, commit, then acknowledge the message.
     *
     * @param string $consumer a stable name of what is done with the message
     * @param string $id what the message has in its header `postrider-id`
     *
     * @throws LogicException outside of a transaction
     * @throws PDOException SQLSTATE 45000 for a message that is too old to be told from a repeat: keep it for a person;
     *                      40001 and HY000 with 1205 when somebody else is at it: run the transaction again
     */
    public function firstSeen(string $consumer, string $id): bool
    {
        if (!$this->pdo->inTransaction()) {
            throw new LogicException('begin a transaction first: the record belongs to the effect of the message');
        }
        $call = $this->pdo->prepare('call postrider_first_seen(?, ?, @postrider_first)');
        $call->execute([$consumer, $id]);
        $call->closeCursor();

        return (bool) $this->pdo->query('select @postrider_first')->fetchColumn();
    }
}
